#include "cli/spooled.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"
#include "base/whole_file.h"

enum { NAMES_TRIED = 1000 };

/*
 * Whether somebody waits to save it is told by a lock, as its process may be in another container,
 * where /proc does not show it. Not by flock(), which whoever packs the file uses. -1: it is locked
 * by another.
 */
static int take_lock(const char *path)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &all) != 0 && (errno == EAGAIN || errno == EACCES)) {
		close(fd);
		return -1;
	}
	return fd;
}

void gm_spooled_deinit(struct gm_spooled *spooled)
{
	if (spooled->lock >= 0)
		close(spooled->lock);
	free(spooled->path);
	free(spooled->saved);
	*spooled = (struct gm_spooled){.lock = -1};
}

bool gm_spooled_init(struct gm_spooled *spooled, const char *path)
{
	*spooled = (struct gm_spooled){.path = strdup(path), .lock = take_lock(path)};
	if (!spooled->path)
		gm_spooled_deinit(spooled);
	return spooled->path;
}

bool gm_spooled_has_oom(struct gm_spooled *spooled)
{
	uint32_t ooms = gm_spool_ooms(spooled->path), before = spooled->ooms;
	spooled->ooms = ooms;
	return ooms > before;
}

/* --- saving ----------------------------------------------------------------------------------- */

static bool is_named(const char *path, uint64_t device, uint64_t inode)
{
	struct stat about;
	return stat(path, &about) == 0 && about.st_dev == device && about.st_ino == inode;
}

static bool is_old(const char *path, const char *old)
{
	char *end;
	unsigned long long device = strtoull(old, &end, 10);
	return *old && *end == ':' && is_named(path, device, strtoull(end + 1, NULL, 10));
}

/* PATH, then PATH.PID, PATH.PID.2 ... */
static char *numbered(const char *path, pid_t pid, int try)
{
	char *name;
	int length = try == 0   ? asprintf(&name, "%s", path)
	             : try == 1 ? asprintf(&name, "%s.%d", path, (int)pid)
	                        : asprintf(&name, "%s.%d.%d", path, (int)pid, try);
	return length < 0 ? NULL : name;
}

/* Gives the file the first name that is free. */
static struct gm_error *finish_new(
        struct gm_whole_file *file, const char *path, pid_t pid, char **ret_path)
{
	for (int try = 0; try < NAMES_TRIED; try++) {
		_cleanup_free_ char *name = numbered(path, pid, try);
		if (!name)
			return &gm_error_no_memory;
		struct gm_error *error = gm_whole_file_finish_new(file, strrchr(name, '/') + 1);
		if (!error)
			*ret_path = gm_take(name);
		if (!error || error->os_error != EEXIST || try == NAMES_TRIED - 1)
			return error;
		gm_error_destroy(error);
	}
	return NULL;
}

static struct gm_error *finish(struct gm_spooled *spooled, struct gm_whole_file *file,
        const char *path, const char *old, pid_t pid)
{
	if (spooled->saved && is_named(spooled->saved, spooled->device, spooled->inode))
		return gm_whole_file_finish(file);
	free(gm_take(spooled->saved));
	if (!is_old(path, old))
		return finish_new(file, path, pid, &spooled->saved);
	spooled->saved = strdup(path);
	return spooled->saved ? gm_whole_file_finish(file) : &gm_error_no_memory;
}

static struct gm_error *error_kind(const char *path)
{
	return gm_error_create(
	        GM_TARGET, "%s: not a regular file: a recording cannot be saved there", path);
}

static struct gm_error *save(struct gm_spooled *spooled, const char *path, const char *old,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary)
{
	struct gm_whole_file file;
	struct stat about;
	if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) /* opening a pipe would wait */
		return error_kind(path);
	gm_try(gm_whole_file_open(path, 0600, GM_WHOLE_FILE_ANY, &file));
	if (!file.name) {
		gm_whole_file_close(&file);
		return error_kind(path);
	}
	_cleanup_free_ char *temporary = gm_whole_file_temporary(&file);
	struct gm_error *error =
	        temporary ? gm_spool_convert(spooled->path, temporary, options, ret_summary)
	                  : &gm_error_no_memory;
	if (error && error->os_error && temporary && strstr(error->message, temporary)) {
		int os_error = error->os_error;
		gm_error_destroy(error);
		error = gm_error_os(GM_TARGET, os_error, "%s: cannot be written", path);
	}
	if (!error && fstat(file.fd, &about) != 0)
		error = gm_error_os(GM_TARGET, errno, "%s: cannot be written", path);
	/* before it has its name: from then on, whoever collects the recording must know it */
	if (!error && spooled->lock >= 0)
		gm_spool_note_saved(spooled->lock, about.st_dev, about.st_ino);
	if (!error)
		error = finish(spooled, &file, path, old, ret_summary->pid);
	gm_whole_file_close(&file);
	if (!error) {
		spooled->device = about.st_dev;
		spooled->inode = about.st_ino;
	}
	return error;
}

struct gm_error *gm_spooled_save(struct gm_spooled *spooled, const char *old,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary)
{
	struct gm_spool_look look;
	gm_try(gm_spool_look(spooled->path, &look));
	if (look.out[0] != '/' || strchr(look.out, '\n'))
		return gm_error_create(GM_CORRUPT,
		        "%s: it does not name the file that it is for, as when the disk was full "
		        "at its start",
		        spooled->path);
	return save(spooled, spooled->saved ? spooled->saved : look.out, old, options, ret_summary);
}

/* --- what was left ---------------------------------------------------------------------------- */

/* Calls `one` with each recording of ours in the folder, and counts the others'. */
static struct gm_error *each(const char *folder, void (*one)(void *context, const char *path),
        void *context, size_t *ret_others)
{
	DIR *listing = opendir(folder);
	if (!listing)
		return gm_error_os(GM_USAGE, errno, "run: --spool %s: cannot be read", folder);
	for (struct dirent *entry; (entry = readdir(listing));) {
		struct stat about;
		_cleanup_free_ char *path = NULL;
		if (!gm_spool_is_for_another(entry->d_name))
			continue;
		if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) {
			path = NULL;
			break;
		}
		if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode))
			continue;
		if (about.st_uid != geteuid())
			++*ret_others;
		else if (gm_spool_is(path))
			one(context, path);
	}
	closedir(listing);
	return NULL;
}

/* It has ended, and nobody waits to save it. */
static bool is_left(const char *path, struct gm_spooled *spooled)
{
	struct gm_spool_look look;
	_cleanup_error_ struct gm_error *error = gm_spool_look(path, &look);
	return gm_spooled_init(spooled, path) && !error && !look.runs && spooled->lock >= 0;
}

static void count_one(void *context, const char *path)
{
	struct gm_spooled spooled;
	*(size_t *)context += is_left(path, &spooled);
	gm_spooled_deinit(&spooled);
}

size_t gm_spooled_count_left(const char *folder)
{
	size_t count = 0, others = 0;
	gm_error_destroy(each(folder, count_one, &count, &others));
	return count;
}

/* A copy may have been saved before everything was killed: the whole recording replaces it. */
static void find_copy(struct gm_spooled *spooled)
{
	struct gm_spool_look look;
	_cleanup_error_ struct gm_error *error = gm_spool_look(spooled->path, &look);
	for (int try = 0; !error && look.saved_inode && try < NAMES_TRIED; try++) {
		_cleanup_free_ char *name = numbered(look.out, look.pid, try);
		if (!name || access(name, F_OK) != 0)
			return;
		if (!is_named(name, look.saved_device, look.saved_inode))
			continue;
		spooled->saved = gm_take(name);
		spooled->device = look.saved_device;
		spooled->inode = look.saved_inode;
		return;
	}
}

struct collecting {
	FILE *err;
	size_t saved, running;
	struct gm_error *error; /* the first */
};

static void collect_one(void *context, const char *path)
{
	struct collecting *collecting = context;
	struct gm_spooled spooled;
	if (!is_left(path, &spooled)) {
		collecting->running++;
		gm_spooled_deinit(&spooled);
		return;
	}
	const struct gm_spool_options options = {.packed = true};
	struct gm_spool_summary summary = {0};
	find_copy(&spooled);
	struct gm_error *error = gm_spooled_save(&spooled, "", &options, &summary);
	if (!error) {
		char number[GM_SIZE_GROUPED];
		unlink(path);
		collecting->saved++;
		gm_put(collecting->err, "gpumem: %s: %s events\n", spooled.saved,
		        gm_text_grouped(summary.events, number));
	} else {
		gm_put(collecting->err, "gpumem: %s: stays in %s\n", error->message, path);
		if (collecting->error)
			gm_error_destroy(error);
		else
			collecting->error = error;
	}
	gm_spooled_deinit(&spooled);
}

struct gm_error *gm_spooled_collect(const char *folder, FILE *err)
{
	struct collecting collecting = {.err = err};
	size_t others = 0;
	gm_try(each(folder, collect_one, &collecting, &others));
	if (collecting.running)
		gm_put(err, "gpumem: %s: %zu recording%s of processes that still run\n", folder,
		        collecting.running, collecting.running == 1 ? "" : "s");
	if (others)
		gm_put(err,
		        "gpumem: %s: %zu recording%s of other users, who have to collect %s "
		        "themselves\n",
		        folder, others, others == 1 ? "" : "s", others == 1 ? "it" : "them");
	if (!collecting.saved && !collecting.running && !collecting.error && !others)
		gm_put(err, "gpumem: %s: no recordings were left here\n", folder);
	return collecting.error;
}
