#include "ranks/render/job.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "render/json.h"
#include "render/say.h"

enum { LINES_MOST = 10 };

static const char *text_at(const struct gm_job *job, uint32_t number)
{
	return gm_strings_at(&job->strings, number);
}

char *gm_job_name(const struct gm_job *job, size_t file)
{
	const struct gm_rank_summary *summary = &job->files.items[file];
	if (summary->rank != GM_RANK_NONE)
		return gm_say("rank %" PRIu32, summary->rank);
	return gm_say("%s", gm_place_base_name(text_at(job, summary->path)));
}

static size_t count_read(const struct gm_job *job)
{
	size_t count = 0;
	for (size_t i = 0; i < job->files.count; i++)
		count += job->files.items[i].state == GM_RANK_READ;
	return count;
}

/* Why an answer from this file is not whole; NULL: it is. The caller frees it. */
static char *flaw(const struct gm_job *job, const struct gm_rank_summary *file)
{
	if (file->state != GM_RANK_READ)
		return gm_say("not read: %s", text_at(job, file->why));
	if (file->truncated)
		return gm_say("%s: truncated at byte %" PRIu64
		              ": the answer covers only the part before",
		        text_at(job, file->path), file->truncated_at);
	if (!file->closed)
		return gm_say("%s: not closed: it still runs, or its recorder was killed",
		        text_at(job, file->path));
	if (!file->compared.file.complete)
		return gm_say("%s: not complete: see gpumem info", text_at(job, file->path));
	if (file->cut)
		return gm_say("%s: only its largest lines and its first steps are compared",
		        text_at(job, file->path));
	return NULL;
}

static void put_missing(const struct gm_job *job, FILE *out)
{
	size_t count = job->missing.count;
	if (!job->missing_count)
		return;
	gm_put(out, "  no file of rank%s", gm_text_s(job->missing_count));
	size_t shown = 0;
	for (size_t i = 0, next; i < count && shown < LINES_MOST; i = next, shown++) {
		for (next = i + 1; next < count &&
		                   job->missing.items[next] == job->missing.items[next - 1] + 1;)
			next++;
		gm_put(out, "%s %" PRIu32, shown ? "," : "", job->missing.items[i]);
		if (next - i > 1)
			gm_put(out, "-%" PRIu32, job->missing.items[next - 1]);
	}
	gm_put(out, " (%zu of %" PRIu64 ", %s)\n", job->missing_count,
	        (uint64_t)(job->missing_count + job->files.count),
	        job->known == GM_RANK_RECORDED ? "as recorded" : "by the names of the files");
}

void gm_render_job_head(const struct gm_job *job, FILE *out)
{
	size_t flaws = 0;
	gm_put(out, "%zu recording%s", count_read(job), gm_text_s(count_read(job)));
	if (count_read(job) != job->files.count)
		gm_put(out, " of %zu files", job->files.count);
	if (job->processes > 1)
		gm_put(out, ", read by %u processes on %u machine%s", job->processes, job->machines,
		        gm_text_s(job->machines));
	fputs("\n", out);
	put_missing(job, out);
	for (size_t i = 0; i < job->files.count; i++) {
		_cleanup_free_ char *why = flaw(job, &job->files.items[i]);
		_cleanup_free_ char *name = gm_job_name(job, i);
		if (why && flaws++ < LINES_MOST)
			gm_put(out, "  %s: %s\n", name ? name : "", why);
	}
	if (flaws > LINES_MOST)
		gm_put(out, "  ... and %zu more that are not whole: --json has all\n",
		        flaws - LINES_MOST);
}

static json_t *number_or_null(uint32_t number)
{
	return number == GM_RANK_NONE ? json_null() : json_integer(number);
}

static json_t *file_json(const struct gm_job *job, const struct gm_rank_summary *file)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:b, s:b, s:o, s:b, s:o, s:o}", "file",
	        gm_json_string(text_at(job, file->path)), "rank", number_or_null(file->rank),
	        "host", gm_json_string_or_null(text_at(job, file->host)), "size",
	        (json_int_t)file->size, "read", file->state == GM_RANK_READ, "closed", file->closed,
	        "truncated_at",
	        file->truncated ? json_integer((json_int_t)file->truncated_at) : json_null(), "cut",
	        file->cut, "error", gm_json_string_or_null(text_at(job, file->why)), "gpumem",
	        gm_json_string_or_null(text_at(job, file->version)));
}

json_t *gm_job_json(const struct gm_job *job)
{
	json_t *files = json_array(), *missing = json_array();
	bool complete = !job->missing_count;
	for (size_t i = 0; i < job->files.count; i++) {
		const struct gm_rank_summary *file = &job->files.items[i];
		complete &= file->state == GM_RANK_READ && file->compared.file.complete &&
		            file->closed && !file->cut;
		json_array_append_new(files, file_json(job, file));
	}
	for (size_t i = 0; i < job->missing.count; i++)
		json_array_append_new(missing, json_integer(job->missing.items[i]));
	return json_pack("{s:I, s:I, s:I, s:o, s:b, s:s, s:o, s:I, s:o}", "processes",
	        (json_int_t)job->processes, "machines", (json_int_t)job->machines, "moved_bytes",
	        (json_int_t)job->moved_bytes, "world",
	        job->world ? json_integer(job->world) : json_null(), "complete", complete,
	        "ranks_known",
	        job->known == GM_RANK_RECORDED  ? "recorded"
	        : job->known == GM_RANK_BY_NAME ? "names"
	                                        : "no",
	        "missing", missing, "missing_count", (json_int_t)job->missing_count, "recordings",
	        files);
}
