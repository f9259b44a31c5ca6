#include "ranks/render/job.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "ranks/analysis.h"
#include "render/json.h"
#include "render/say.h"

enum { LINES_MOST = 10, RANGES_MOST = 8 };

static const char *short_path(const struct gm_job *job, uint32_t path)
{
	const char *text = gm_job_string(job, path);
	return job->same_names ? text : gm_place_base_name(text);
}

static bool has_ranks(const struct gm_job *job)
{
	return job->known != GM_RANK_NOT_KNOWN && job->unique;
}

static char *name_of(const struct gm_job *job, const struct gm_rank_summary *file)
{
	if (has_ranks(job) && gm_rank_of(file) != GM_RANK_NONE)
		return gm_say("rank %" PRIu32, gm_rank_of(file));
	return gm_say("%s", short_path(job, file->path));
}

char *gm_job_name(const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file)
{
	return name_of(job, &job->files.items[answer->files[file]]);
}

static uint32_t rank_at(const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file)
{
	return gm_rank_of(&job->files.items[answer->files[file]]);
}

json_t *gm_job_rank_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file)
{
	uint32_t rank = rank_at(job, answer, file);
	return rank == GM_RANK_NONE ? json_null() : json_integer(rank);
}

/* --- ranges ----------------------------------------------------------------------------------- */

/* Numbers that follow one another at one distance: how many of them, from `at`. */
static size_t range_at(const uint32_t *numbers, size_t count, size_t at, uint32_t *ret_distance)
{
	size_t next = at + 1;
	*ret_distance = 1;
	if (next == count || numbers[next] <= numbers[at])
		return 1;
	uint32_t distance = numbers[next] - numbers[at];
	while (next < count && numbers[next] > numbers[next - 1] &&
	        numbers[next] - numbers[next - 1] == distance)
		next++;
	if (distance > 1 && next - at < 3)
		return 1;
	*ret_distance = distance;
	return next - at;
}

static void put_numbers(const uint32_t *numbers, size_t count, FILE *out)
{
	size_t shown = 0;
	for (size_t i = 0, length; i < count; i += length, shown++) {
		uint32_t distance;
		length = range_at(numbers, count, i, &distance);
		if (shown == RANGES_MOST) {
			gm_put(out, ", and %zu more", count - i);
			return;
		}
		gm_put(out, "%s%" PRIu32, shown ? ", " : "", numbers[i]);
		if (length > 1)
			gm_put(out, "-%" PRIu32, numbers[i + length - 1]);
		if (length > 1 && distance > 1)
			gm_put(out, " (each %" PRIu32 "%s)", distance,
			        distance == 2   ? "nd"
			        : distance == 3 ? "rd"
			                        : "th");
	}
}

void gm_put_ranks(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const size_t *files, size_t count, FILE *out)
{
	_cleanup_free_ uint32_t *numbers = calloc(count + 1, sizeof(*numbers));
	if (!numbers)
		return;
	if (!has_ranks(job)) {
		for (size_t i = 0; i < count && i < RANGES_MOST; i++)
			gm_put(out, "%s%s", i ? ", " : "",
			        short_path(job, job->files.items[answer->files[files[i]]].path));
		if (count > RANGES_MOST)
			gm_put(out, ", and %zu more", count - RANGES_MOST);
		return;
	}
	for (size_t i = 0; i < count; i++)
		numbers[i] = rank_at(job, answer, files[i]);
	put_numbers(numbers, count, out);
}

/* --- completeness ----------------------------------------------------------------------------- */

/* Why an answer from this file is not whole; NULL: it is. The caller frees it. */
static char *flaw(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_summary *file)
{
	const struct gm_summary_section *section = &file->sections[answer->section];
	if (file->state != GM_RANK_READ)
		return gm_say("not read: %s", gm_job_string(job, file->why));
	if (section->why)
		return gm_say("no answer: %s", gm_job_string(job, section->why));
	if (file->truncated)
		return gm_say("%s: the file is truncated at byte %" PRIu64
		              ": the answer covers only the part before",
		        gm_job_string(job, file->path), file->truncated_at);
	if (!file->closed)
		return gm_say("%s: the recording is not closed: it still runs, or the recorder was "
		              "killed",
		        gm_job_string(job, file->path));
	if (!file->complete)
		return gm_say("%s: not complete: `gpumem info` shows what is missing",
		        gm_job_string(job, file->path));
	if ((section->cut && answer->section != GM_SECTION_STEPS) ||
	        file->sections[GM_SECTION_PEAK].cut)
		return gm_say("%s: the summary has only its largest lines",
		        gm_job_string(job, file->path));
	return NULL;
}

static void put_missing(const struct gm_job *job, FILE *out)
{
	size_t ranked = 0;
	if (!job->missing_count)
		return;
	for (size_t i = 0; i < job->files.count; i++)
		ranked += gm_rank_of(&job->files.items[i]) != GM_RANK_NONE;
	size_t others = job->files.count - ranked;
	gm_put(out, "  no file of rank%s ", gm_text_s(job->missing_count));
	put_numbers(job->missing.items, job->missing.count, out);
	gm_put(out, " (%zu of %zu, %s", job->missing_count,
	        job->world ? (size_t)job->world : job->missing_count + ranked,
	        job->world ? "as the recordings count them" : "by the names of the files");
	if (others)
		gm_put(out, "; %zu file%s that cannot be read may be of these ranks", others,
		        gm_text_s(others));
	gm_put(out, ")\n");
}

/* One line for all older files of a rank, from `first` on. Returns how many these are. */
static size_t put_older_of(const struct gm_job *job, size_t first, FILE *out)
{
	const struct gm_job_older *older = &job->older.items[first];
	size_t count = 1;
	while (first + count < job->older.count && older[count].rank == older->rank &&
	        older[count].newer == older->newer)
		count++;
	if (!out)
		return count;
	if (!older->newer) {
		gm_put(out,
		        "  rank %" PRIu32 ": %s is of another start, with %" PRIu32
		        " ranks; the newest has %" PRIu32 ": it does not count\n",
		        older->rank, short_path(job, older->path), older->world, job->world);
		return count;
	}
	gm_put(out, "  rank %" PRIu32 " has %zu files: ", older->rank, count + 1);
	for (size_t i = 0; i < count && i < RANGES_MOST; i++)
		gm_put(out, "%s, ", short_path(job, older[i].path));
	gm_put(out, "%s: the newest counts, %s\n", short_path(job, older->newer),
	        short_path(job, older->newer));
	return count;
}

static void put_older(const struct gm_job *job, FILE *out)
{
	size_t lines = 0;
	for (size_t i = 0; i < job->older.count; lines++)
		i += put_older_of(job, i, lines < LINES_MOST ? out : NULL);
	if (lines > LINES_MOST)
		gm_put(out, "  ... and %zu more ranks have older files: --json has all\n",
		        lines - LINES_MOST);
}

static void put_together(const struct gm_job *job, FILE *out)
{
	if (!job->together)
		return;
	gm_put(out,
	        "  %zu file%s %s the rank of another process that ran at the same time, such as "
	        "rank %" PRIu32 ": these ranks are not used, and all files count\n",
	        job->together, gm_text_s(job->together), job->together == 1 ? "has" : "have",
	        job->together_rank);
}

static void put_parts(const struct gm_job *job, FILE *out)
{
	if (!job->parts.count)
		return;
	gm_put(out, "  the files are of %zu jobs (", job->parts.count);
	for (size_t i = 0; i < job->parts.count && i < RANGES_MOST; i++)
		gm_put(out, "%s%s: %zu", i ? ", " : "",
		        gm_job_string(job, job->parts.items[i].name), job->parts.items[i].files);
	gm_put(out, "%s): ask for the files of one\n",
	        job->parts.count > RANGES_MOST ? ", ..." : "");
}

static void put_foreign(const struct gm_job *job, FILE *out)
{
	for (size_t i = 0; i < job->foreign.count && i < LINES_MOST; i++) {
		const struct gm_job_foreign *foreign = &job->foreign.items[i];
		gm_put(out,
		        "  process %u on %s is of another build (%s; this is %s): its %" PRIu64
		        " file%s are left out\n",
		        foreign->process, foreign->host, foreign->format, gm_ranks_analysis(),
		        foreign->files, gm_text_s(foreign->files));
	}
}

static size_t count_kept(const struct gm_job *job)
{
	size_t count = 0;
	for (size_t i = 0; i < job->files.count; i++)
		count += job->files.items[i].kept;
	return count;
}

void gm_render_job_head(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out)
{
	size_t flaws = 0, kept = count_kept(job);
	gm_put(out, "%zu recording%s", answer->count, gm_text_s(answer->count));
	if (answer->count != job->files.count)
		gm_put(out, " of %zu file%s", job->files.count, gm_text_s(job->files.count));
	if (job->processes > 1)
		gm_put(out, ", read by %u processes on %u machine%s", job->processes, job->machines,
		        gm_text_s(job->machines));
	if (kept)
		gm_put(out, "; %zu from kept summaries", kept);
	fputs("\n", out);
	put_parts(job, out);
	put_together(job, out);
	put_older(job, out);
	if (job->siblings)
		gm_put(out,
		        "  %zu file%s FILE.PID %s next to these, such as %s: a later process of "
		        "the "
		        "same rank wrote it: 'FILE*' means both\n",
		        job->siblings, gm_text_s(job->siblings), job->siblings == 1 ? "is" : "are",
		        short_path(job, job->sibling));
	put_missing(job, out);
	put_foreign(job, out);
	if (job->doubles)
		gm_put(out,
		        "  %zu file%s were read on several machines: they share the folder: leave "
		        "--local out\n",
		        job->doubles, gm_text_s(job->doubles));
	for (size_t i = 0; i < job->files.count; i++) {
		_cleanup_free_ char *why = flaw(job, answer, &job->files.items[i]);
		_cleanup_free_ char *name = name_of(job, &job->files.items[i]);
		if (why && flaws++ < LINES_MOST)
			gm_put(out, "  %s: %s\n", name ? name : "", why);
	}
	if (flaws > LINES_MOST)
		gm_put(out, "  ... and %zu more that are not whole: --json has all\n",
		        flaws - LINES_MOST);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *number_or_null(uint32_t number)
{
	return number == GM_RANK_NONE ? json_null() : json_integer(number);
}

static json_t *file_json(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const struct gm_rank_summary *file)
{
	const struct gm_summary_section *section = &file->sections[answer->section];
	json_t *numbers = json_object();
	for (unsigned i = 0; i < GM_JOB_NUMBERS; i++)
		if (i != GM_JOB_RANK && file->numbers[i] != GM_RANK_NONE)
			json_object_set_new(
			        numbers, gm_job_number_name(i), json_integer(file->numbers[i]));
	json_t *value = json_pack("{s:o, s:o, s:o, s:I, s:b, s:b, s:b, s:b}", "file",
	        gm_json_string(gm_job_string(job, file->path)), "rank",
	        number_or_null(gm_rank_of(file)), "host",
	        gm_json_string_or_null(gm_job_string(job, file->host)), "size",
	        (json_int_t)file->size, "read", file->state == GM_RANK_READ, "closed", file->closed,
	        "complete", file->complete, "kept", file->kept);
	json_object_set_new(value, "truncated_at",
	        file->truncated ? json_integer((json_int_t)file->truncated_at) : json_null());
	json_object_set_new(
	        value, "cut", json_boolean(section->cut || file->sections[GM_SECTION_PEAK].cut));
	json_object_set_new(value, "error",
	        gm_json_string_or_null(gm_job_string(job, file->why ? file->why : section->why)));
	json_object_set_new(
	        value, "gpumem", gm_json_string_or_null(gm_job_string(job, file->version)));
	json_object_set_new(value, "started_ns",
	        file->start_ns ? json_integer((json_int_t)file->start_ns) : json_null());
	json_object_set_new(value, "device_total",
	        file->total ? json_integer((json_int_t)file->total) : json_null());
	json_object_set_new(value, "ooms", json_integer((json_int_t)file->ooms));
	json_object_set_new(value, "allocator_settings",
	        gm_json_string_or_null(gm_job_string(job, file->allocator)));
	json_object_set_new(value, "numbers", numbers);
	return value;
}

static bool is_complete(const struct gm_job *job, const struct gm_ranks_answer *answer)
{
	bool complete =
	        !job->missing_count && !job->parts.count && !job->foreign.count && job->files.count;
	for (size_t i = 0; i < job->files.count && complete; i++) {
		char *why = flaw(job, answer, &job->files.items[i]);
		complete = !why && !job->files.items[i].sections[answer->section].cut;
		free(why);
	}
	return complete;
}

static json_t *foreign_json(const struct gm_job_foreign *foreign)
{
	return json_pack("{s:I, s:o, s:o, s:I}", "process", (json_int_t)foreign->process, "host",
	        gm_json_string(foreign->host), "gpumem", gm_json_string(foreign->format), "files",
	        (json_int_t)foreign->files);
}

static json_t *older_json(const struct gm_job *job, const struct gm_job_older *older)
{
	return json_pack("{s:o, s:I, s:o, s:o}", "file",
	        gm_json_string(gm_job_string(job, older->path)), "rank", (json_int_t)older->rank,
	        "newer", gm_json_string_or_null(gm_job_string(job, older->newer)), "world",
	        older->world ? json_integer(older->world) : json_null());
}

void gm_stream_job(struct gm_json_stream *stream, const struct gm_job *job,
        const struct gm_ranks_answer *answer)
{
	gm_stream_open(stream, "job", '{');
	gm_stream_put(stream, "processes", json_integer(job->processes));
	gm_stream_put(stream, "machines", json_integer(job->machines));
	gm_stream_put(stream, "moved_bytes", json_integer((json_int_t)job->moved_bytes));
	gm_stream_put(stream, "world", job->world ? json_integer(job->world) : json_null());
	gm_stream_put(stream, "complete", json_boolean(is_complete(job, answer)));
	gm_stream_put(stream, "ranks_known",
	        json_string(job->known == GM_RANK_RECORDED  ? "recorded"
	                    : job->known == GM_RANK_BY_NAME ? "names"
	                                                    : "no"));
	gm_stream_put(stream, "read", json_integer((json_int_t)answer->count));
	gm_stream_put(stream, "kept", json_integer((json_int_t)count_kept(job)));
	gm_stream_put(stream, "doubles", json_integer((json_int_t)job->doubles));
	gm_stream_put(stream, "missing_count", json_integer((json_int_t)job->missing_count));
	gm_stream_open(stream, "missing", '[');
	for (size_t i = 0; i < job->missing.count; i++)
		gm_stream_put(stream, NULL, json_integer(job->missing.items[i]));
	gm_stream_close(stream, ']');
	gm_stream_put(stream, "same_rank_together", json_integer((json_int_t)job->together));
	gm_stream_put(stream, "siblings", json_integer((json_int_t)job->siblings));
	gm_stream_open(stream, "older", '[');
	for (size_t i = 0; i < job->older.count; i++)
		gm_stream_put(stream, NULL, older_json(job, &job->older.items[i]));
	gm_stream_close(stream, ']');
	gm_stream_open(stream, "jobs", '[');
	for (size_t i = 0; i < job->parts.count; i++)
		gm_stream_put(stream, NULL,
		        json_pack("{s:o, s:I}", "job",
		                gm_json_string(gm_job_string(job, job->parts.items[i].name)),
		                "files", (json_int_t)job->parts.items[i].files));
	gm_stream_close(stream, ']');
	gm_stream_open(stream, "other_versions", '[');
	for (size_t i = 0; i < job->foreign.count; i++)
		gm_stream_put(stream, NULL, foreign_json(&job->foreign.items[i]));
	gm_stream_close(stream, ']');
	gm_stream_open(stream, "recordings", '[');
	for (size_t i = 0; i < job->files.count; i++)
		gm_stream_put(stream, NULL, file_json(job, answer, &job->files.items[i]));
	gm_stream_close(stream, ']');
	gm_stream_close(stream, '}');
}
