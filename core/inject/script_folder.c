/*
 * The private folder through which a script is passed to the program's Python, and the script
 * itself.
 *
 * The script runs in the program's main thread, so it only starts a Python thread and ends. No
 * signal handler of the program runs in that thread, and the main thread waits for nothing. All
 * values are written into the script as hexadecimal digits. It reports through files in the folder.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "inject/script_folder.h"

#define PREFIX "gpumem-python-"
#define SCRIPT "attach.py"
#define GO "go"
#define LOADED "loaded"
#define FAILED "failed"

static const char *const files[] = {SCRIPT, GO, LOADED, FAILED};

/* ---- the folder ------------------------------------------------------------------------------ */

static const char *base(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && folder[0] == '/' ? folder : "/tmp";
}

static struct gm_error *error_folder(const char *path, int os_error)
{
	return gm_error_os(GM_TARGET, os_error,
	        "%s: cannot create a private folder there for the script that the program's Python "
	        "runs",
	        path);
}

struct gm_error *gm_script_folder_make(pid_t pid, struct gm_script_folder *ret_folder)
{
	struct gm_script_folder folder;
	int length =
	        snprintf(folder.path, sizeof(folder.path), "%s/" PREFIX "%d-XXXXXX", base(), pid);
	if (length < 0 || (size_t)length >= sizeof(folder.path))
		return error_folder(base(), ENAMETOOLONG);
	if (!mkdtemp(folder.path))
		return error_folder(base(), errno);
	folder.descriptor = open(folder.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder.descriptor < 0 || flock(folder.descriptor, LOCK_EX | LOCK_NB) != 0) {
		struct gm_error *error = error_folder(folder.path, errno);
		if (folder.descriptor >= 0)
			close(folder.descriptor);
		rmdir(folder.path);
		return error;
	}
	*ret_folder = folder;
	return NULL;
}

void gm_script_folder_remove(struct gm_script_folder *folder)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		unlinkat(folder->descriptor, files[i], 0);
	rmdir(folder->path);
	close(folder->descriptor);
	folder->descriptor = -1;
}

static bool has(const struct gm_script_folder *folder, const char *name)
{
	struct stat about;
	return fstatat(folder->descriptor, name, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

void gm_script_forbid(const struct gm_script_folder *folder)
{
	unlinkat(folder->descriptor, GO, 0);
}

bool gm_script_has_loaded(const struct gm_script_folder *folder)
{
	return has(folder, LOADED);
}

bool gm_script_has_failed(const struct gm_script_folder *folder, char *ret_text, size_t size)
{
	if (!has(folder, FAILED))
		return false;
	_cleanup_close_ int file =
	        openat(folder->descriptor, FAILED, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t length = file >= 0 ? read(file, ret_text, size - 1) : 0;
	if (length <= 0)
		return false; /* it exists before its text does, which is never empty */
	ret_text[length] = 0;
	for (char *at = ret_text; *at; at++)
		if (!isprint((unsigned char)*at))
			*at = '?';
	return true;
}

/* --- leftovers of an earlier gpumem ----------------------------------------------------------- */

/* The process in the folder's name; 0: it is not one of these folders. */
static pid_t process_of(const char *name)
{
	int pid, length = 0;
	if (sscanf(name, PREFIX "%9d-%n", &pid, &length) != 1 || !length || pid <= 0)
		return 0;
	return strlen(name + length) == 6 ? (pid_t)pid : 0;
}

void gm_script_remove_left_over(
        pid_t pid, void (*withdraw)(void *context, const char *folder), void *context)
{
	DIR *listing = opendir(base());
	for (struct dirent *entry; listing && (entry = readdir(listing));) {
		pid_t process = process_of(entry->d_name);
		struct gm_script_folder folder;
		struct stat about;
		if (!process || (process != pid && (kill(process, 0) == 0 || errno != ESRCH)))
			continue;
		int length =
		        snprintf(folder.path, sizeof(folder.path), "%s/%s", base(), entry->d_name);
		if (length < 0 || (size_t)length >= sizeof(folder.path))
			continue;
		folder.descriptor =
		        open(folder.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (folder.descriptor < 0)
			continue;
		/* locked: another process is attaching now */
		if (fstat(folder.descriptor, &about) != 0 || about.st_uid != geteuid() ||
		        (about.st_mode & 0777) != 0700 ||
		        flock(folder.descriptor, LOCK_EX | LOCK_NB) != 0) {
			close(folder.descriptor);
			continue;
		}
		gm_script_forbid(&folder);
		if (process == pid)
			withdraw(context, folder.path);
		gm_script_folder_remove(&folder);
	}
	if (listing)
		closedir(listing);
}

/* ---- the script ------------------------------------------------------------------------------ */

static void put_hex(FILE *out, const char *text)
{
	fputs("bytes.fromhex('", out);
	for (; *text; text++)
		fprintf(out, "%02x", (unsigned)(uint8_t)*text);
	fputs("')", out);
}

/*
 * Everything that it needs is imported in its own thread, because the main thread may be importing
 * the same. The names belong only to the script, and both functions are freed when the thread ends.
 */
static void put_script(
        FILE *out, const struct gm_script_folder *folder, const struct gm_script_text *text)
{
	fputs("# Loads gpumem's agent: `gpumem attach`.\n"
	      "import _thread\n"
	      "def tell(name, text):\n"
	      "    import os\n"
	      "    try:\n"
	      "        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n"
	      "        file = os.open(",
	        out);
	put_hex(out, folder->path);
	fputs(" + b'/' + name, how, 0o600)\n"
	      "        os.write(file, text)\n"
	      "        os.close(file)\n"
	      "    except OSError:\n"
	      "        pass\n"
	      "def work(tell):\n"
	      "    try:\n"
	      "        import ctypes, os\n",
	        out);
	fprintf(out, "        if os.getpid() != %d:\n            return\n", text->pid);
	if (text->function) {
		fprintf(out, "        address = %llu\n", (unsigned long long)text->function);
	} else {
		fputs("        library = ctypes.CDLL(os.fsdecode(", out);
		put_hex(out, text->agent);
		fprintf(out,
		        "))\n        address = ctypes.cast(library.%s, ctypes.c_void_p).value\n",
		        text->name);
	}
	fputs("        os.stat(", out);
	put_hex(out, folder->path);
	fputs(" + b'/" GO "')\n"
	      "        tell(b'" LOADED "', b'')\n",
	        out);
	fprintf(out,
	        "        function = ctypes.CFUNCTYPE(ctypes.c_int, %sctypes.c_uint32)(address)\n",
	        text->settings ? "ctypes.c_char_p, " : "");
	fputs("        error = function(", out);
	if (text->settings) {
		put_hex(out, text->settings);
		fputs(", ", out);
	}
	fprintf(out, "%u)\n", text->ticket);
	fputs("        if error:\n"
	      "            tell(b'" FAILED "', b'no thread can be made: errno %d' % error)\n"
	      "    except BaseException as error:\n"
	      "        tell(b'" FAILED "', repr(error).encode('ascii', 'replace')[:400])\n"
	      "try:\n"
	      "    _thread.start_new_thread(work, (tell,))\n"
	      "except Exception as error:\n"
	      "    tell(b'" FAILED "', repr(error).encode('ascii', 'replace')[:400])\n"
	      "del tell, work\n",
	        out);
}

static struct gm_error *make_file(
        const struct gm_script_folder *folder, const char *name, const char *text, size_t size)
{
	_cleanup_close_ int file = openat(folder->descriptor, name,
	        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	errno = 0;
	if (file < 0 || write(file, text, size) != (ssize_t)size)
		return error_folder(folder->path, errno ? errno : ENOSPC);
	return NULL;
}

struct gm_error *gm_script_write(
        const struct gm_script_folder *folder, const struct gm_script_text *text, char **ret_path)
{
	_cleanup_free_ char *bytes = NULL;
	size_t size;
	FILE *out = open_memstream(&bytes, &size);
	if (!out)
		return &gm_error_no_memory;
	put_script(out, folder, text);
	if (fclose(out) != 0)
		return &gm_error_no_memory;
	gm_try(make_file(folder, GO, "", 0));
	gm_try(make_file(folder, SCRIPT, bytes, size));
	if (asprintf(ret_path, "%s/" SCRIPT, folder->path) < 0)
		return &gm_error_no_memory;
	return NULL;
}
