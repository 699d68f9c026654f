/* Faults in the calls that a program makes to the operating system: a library for LD_PRELOAD.

   The state is shared memory: the harness sets it, forks, and the child arms itself. Calls that touch files below
   `root` are counted; call number `at` fails, or the process is killed there. Everything else passes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, FSYNC = 4, RENAME = 8, MKDIR = 16, UNLINK = 32, LOCK = 64, READ = 128, TRUNCATE = 256, LIST = 512 };
enum { OFF, SINGLE, LASTING, KILL_BEFORE, KILL_AFTER, SHORT };
enum { RECORDS = 4096, NAME = 240, DESCRIPTORS = 4096 };

typedef struct {
  int op;
  unsigned long inode;
  char name[NAME];
} Record;

typedef struct {
  int ops, mode, at, error;
  atomic_int count, fired, fired_op, recorded;
  char root[PATH_MAX], fired_name[NAME];
  Record records[RECORDS];
} State;

static State *state;
static int armed;
static unsigned char ours[DESCRIPTORS];

/* The state is in this file from now on. Each of several processes that test at the same time needs its own. */
int torture_share(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void *found = MAP_FAILED;
  if (fd >= 0 && !ftruncate(fd, sizeof(State)))
    found = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (fd >= 0) close(fd);
  if (found == MAP_FAILED) return -1;
  state = found;
  return 0;
}

__attribute__((constructor)) static void start(void) {
  state = mmap(NULL, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (state == MAP_FAILED) state = NULL;
}

void torture_set(const char *root, int ops, int mode, int at, int error) {
  strncpy(state->root, root, PATH_MAX - 1);
  state->ops = ops, state->mode = mode, state->at = at, state->error = error;
  state->count = state->fired = state->fired_op = state->recorded = 0;
  state->fired_name[0] = 0;
}
void torture_arm(void) { armed = 1; }
void torture_disarm(void) { armed = 0; }
int torture_count(void) { return state->count; }
int torture_fired(void) { return state->fired; }
int torture_fired_op(void) { return state->fired_op; }
const char *torture_fired_name(void) { return state->fired_name; }
int torture_recorded(void) { return state->recorded < RECORDS ? state->recorded : RECORDS; }
int torture_record_op(int i) { return state->records[i].op; }
unsigned long torture_record_inode(int i) { return state->records[i].inode; }
const char *torture_record_name(int i) { return state->records[i].name; }

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int inside(int folder, const char *path) {
  char whole[PATH_MAX];
  size_t length;
  if (!armed || !state || !path) return 0;
  length = strlen(state->root);
  if (path[0] == '/') return !strncmp(path, state->root, length);
  if (folder >= 0 && folder < DESCRIPTORS && folder != AT_FDCWD) return ours[folder];
  return getcwd(whole, sizeof whole) && !strncmp(whole, state->root, length);
}

static int is_ours(int fd) { return armed && fd >= 0 && fd < DESCRIPTORS && ours[fd]; }

/* What happens at this call: 0 nothing, 1 fails, 2 is cut short, 3 is killed once it is done. */
static int fault(int op, const char *name) {
  int n, mode;
  if (!(state->ops & op)) return 0;
  n = ++state->count;
  mode = state->mode;
  if (mode == OFF || n < state->at || (n > state->at && mode != LASTING && mode != SHORT)) return 0;
  if (!state->fired) {
    state->fired_op = op;
    strncpy(state->fired_name, name ? name : "", NAME - 1);
  }
  ++state->fired;
  if (mode == KILL_BEFORE) kill(getpid(), SIGKILL);
  if (mode == KILL_AFTER) return 3;
  if (mode == SHORT && op == WRITE && n == state->at) return 2;
  errno = state->error;
  return 1;
}

static void note(int op, unsigned long inode, const char *name) {
  int i;
  if (!armed || (i = state->recorded++) >= RECORDS) return;
  state->records[i].op = op;
  state->records[i].inode = inode;
  strncpy(state->records[i].name, name ? name : "", NAME - 1);
}

static void note_fd(int op, int fd) {
  struct stat s;
  int before = errno;
  if (armed && !fstat(fd, &s)) note(op, s.st_ino, S_ISDIR(s.st_mode) ? "folder" : "");
  errno = before;
}

static void done(int what) {
  if (what == 3) kill(getpid(), SIGKILL);
}

static int opened(int fd, int flags) {
  if (fd >= 0 && fd < DESCRIPTORS) ours[fd] = 1;
  if (fd >= 0 && flags & O_TRUNC) note_fd(WRITE, fd);
  return fd;
}

#define OPEN_WITH(name, folder, declaration, ...)                       \
  int declaration {                                                     \
    REAL(name);                                                         \
    mode_t mode = 0;                                                    \
    int what = 0, fd, counted = inside(folder, path);                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {                              \
      va_list rest;                                                     \
      va_start(rest, flags);                                            \
      mode = va_arg(rest, mode_t);                                      \
      va_end(rest);                                                     \
    }                                                                   \
    if (counted && (what = fault(OPEN, path)) == 1) return -1;          \
    fd = real(__VA_ARGS__, flags, mode);                                \
    if (counted) opened(fd, flags);                                     \
    done(what);                                                         \
    return fd;                                                          \
  }
OPEN_WITH(open, AT_FDCWD, open(const char *path, int flags, ...), path)
OPEN_WITH(open64, AT_FDCWD, open64(const char *path, int flags, ...), path)
OPEN_WITH(openat, folder, openat(int folder, const char *path, int flags, ...), folder, path)
OPEN_WITH(openat64, folder, openat64(int folder, const char *path, int flags, ...), folder, path)
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }

#define FOPEN(name)                                                     \
  FILE *name(const char *restrict path, const char *restrict kind) {    \
    REAL(name);                                                         \
    int counted = inside(AT_FDCWD, path), what = 0;                     \
    FILE *stream;                                                       \
    if (counted && (what = fault(OPEN, path)) == 1) return NULL;        \
    stream = real(path, kind);                                          \
    if (counted && stream) opened(fileno(stream), kind[0] == 'w' ? O_TRUNC : 0); \
    done(what);                                                         \
    return stream;                                                      \
  }
FOPEN(fopen)
FOPEN(fopen64)

int close(int fd) {
  REAL(close);
  if (fd >= 0 && fd < DESCRIPTORS) ours[fd] = 0;
  return real(fd);
}

#define ON_FD(type, name, op, shorter, declaration, ...)                \
  type declaration {                                                    \
    REAL(name);                                                         \
    int what = 0;                                                       \
    type result;                                                        \
    if (!is_ours(fd)) return real(__VA_ARGS__);                         \
    if ((what = fault(op, #name)) == 1) return -1;                      \
    if (what == 2) { shorter; }                                         \
    result = real(__VA_ARGS__);                                         \
    if (op != READ && op != LOCK) note_fd(op, fd);                      \
    done(what);                                                         \
    return result;                                                      \
  }
ON_FD(ssize_t, write, WRITE, n = n / 2, write(int fd, const void *from, size_t n), fd, from, n)
ON_FD(ssize_t, pwrite, WRITE, n = n / 2, pwrite(int fd, const void *from, size_t n, off_t at), fd, from, n, at)
ON_FD(ssize_t, pwrite64, WRITE, n = n / 2, pwrite64(int fd, const void *from, size_t n, off64_t at), fd, from, n, at)
ON_FD(ssize_t, writev, WRITE, n = 1, writev(int fd, const struct iovec *from, int n), fd, from, n)
ON_FD(ssize_t, read, READ, , read(int fd, void *to, size_t n), fd, to, n)
ON_FD(ssize_t, pread, READ, , pread(int fd, void *to, size_t n, off_t at), fd, to, n, at)
ON_FD(ssize_t, pread64, READ, , pread64(int fd, void *to, size_t n, off64_t at), fd, to, n, at)
ON_FD(int, fsync, FSYNC, , fsync(int fd), fd)
ON_FD(int, fdatasync, FSYNC, , fdatasync(int fd), fd)
ON_FD(int, ftruncate, TRUNCATE, , ftruncate(int fd, off_t size), fd, size)
ON_FD(int, ftruncate64, TRUNCATE, , ftruncate64(int fd, off64_t size), fd, size)
ON_FD(int, flock, LOCK, , flock(int fd, int kind), fd, kind)

size_t fwrite(const void *restrict from, size_t size, size_t n, FILE *restrict stream) {
  REAL(fwrite);
  int fd = armed ? fileno(stream) : -1, what = 0;
  size_t result;
  if (!is_ours(fd)) return real(from, size, n, stream);
  if ((what = fault(WRITE, "fwrite")) == 1) return 0;
  result = real(from, size, what == 2 ? n / 2 : n, stream);
  note_fd(WRITE, fd);
  done(what);
  return result;
}

#define ON_PATH(name, op, folder, declaration, ...)                     \
  int declaration {                                                     \
    REAL(name);                                                         \
    int result, what = 0, counted = inside(folder, path);               \
    if (counted && (what = fault(op, path)) == 1) return -1;            \
    result = real(__VA_ARGS__);                                         \
    if (counted && !result) note(op, 0, path);                          \
    done(what);                                                         \
    return result;                                                      \
  }
ON_PATH(mkdir, MKDIR, AT_FDCWD, mkdir(const char *path, mode_t mode), path, mode)
ON_PATH(mkdirat, MKDIR, folder, mkdirat(int folder, const char *path, mode_t mode), folder, path, mode)
ON_PATH(unlink, UNLINK, AT_FDCWD, unlink(const char *path), path)
ON_PATH(unlinkat, UNLINK, folder, unlinkat(int folder, const char *path, int flags), folder, path, flags)
ON_PATH(rmdir, UNLINK, AT_FDCWD, rmdir(const char *path), path)
ON_PATH(remove, UNLINK, AT_FDCWD, remove(const char *path), path)

#define ON_RENAME(name, folder, declaration, ...)                       \
  int declaration {                                                     \
    REAL(name);                                                         \
    struct stat s;                                                      \
    int result, what = 0, counted = inside(folder, path), replaced;     \
    if (!counted) return real(__VA_ARGS__);                             \
    if ((what = fault(RENAME, path)) == 1) return -1;                   \
    replaced = !stat(path, &s);                                         \
    result = real(__VA_ARGS__);                                         \
    if (!result) note(RENAME, replaced, path);                          \
    done(what);                                                         \
    return result;                                                      \
  }
ON_RENAME(rename, AT_FDCWD, rename(const char *from, const char *path), from, path)
ON_RENAME(renameat, folder, renameat(int other, const char *from, int folder, const char *path), other, from, folder, path)
ON_RENAME(renameat2, folder, renameat2(int other, const char *from, int folder, const char *path, unsigned flags), other,
          from, folder, path, flags)

DIR *opendir(const char *path) {
  REAL(opendir);
  int what = 0;
  DIR *found;
  if (inside(AT_FDCWD, path) && (what = fault(LIST, path)) == 1) return NULL;
  found = real(path);
  done(what);
  return found;
}
