/* Windows takes a slash for a backslash. Wine takes a path that begins with one for a path of Linux, so kubeadm.exe,
 * which joins some paths with slashes and others with backslashes, does not find what it has written.
 *
 * Only kubeadm gets this: what other programs do with such paths the tests have never seen.
 */
#include "redirect.h"

enum { PATH_LIMIT = 1024 };

static BOOL slashes_count(void)
{
    static int count = -1;
    if (count < 0) {
        WCHAR name[PATH_LIMIT];
        DWORD n = GetModuleFileNameW(NULL, name, PATH_LIMIT);
        static const WCHAR program[] = L"\\kubeadm.exe";
        size_t length = sizeof program / sizeof *program - 1;
        count = n > length && !_wcsicmp(name + n - length, program);
    }
    return count;
}

/* The path as Windows reads it; buffer has room for PATH_LIMIT characters. */
static const WCHAR *dos(const WCHAR *path, WCHAR *buffer)
{
    if (!path || path[0] != L'/' || path[1] == L'/' || wcslen(path) >= PATH_LIMIT || !slashes_count())
        return path;
    wcscpy(buffer, path);
    buffer[0] = L'\\';
    return buffer;
}

static HANDLE(WINAPI *original_create)(LPCWSTR, DWORD, DWORD, LPSECURITY_ATTRIBUTES, DWORD, DWORD, HANDLE);

static HANDLE WINAPI create(LPCWSTR path, DWORD access, DWORD share, LPSECURITY_ATTRIBUTES security, DWORD how,
                            DWORD flags, HANDLE template)
{
    WCHAR buffer[PATH_LIMIT];
    return original_create(dos(path, buffer), access, share, security, how, flags, template);
}

static BOOL(WINAPI *original_attributes)(LPCWSTR, GET_FILEEX_INFO_LEVELS, LPVOID);

static BOOL WINAPI attributes(LPCWSTR path, GET_FILEEX_INFO_LEVELS level, LPVOID out)
{
    WCHAR buffer[PATH_LIMIT];
    return original_attributes(dos(path, buffer), level, out);
}

static BOOL(WINAPI *original_directory)(LPCWSTR, LPSECURITY_ATTRIBUTES);

static BOOL WINAPI directory(LPCWSTR path, LPSECURITY_ATTRIBUTES security)
{
    WCHAR buffer[PATH_LIMIT];
    return original_directory(dos(path, buffer), security);
}

const redirection slash_redirections[] = {
    {"CreateFileW", (FARPROC)create, (FARPROC *)&original_create},
    {"GetFileAttributesExW", (FARPROC)attributes, (FARPROC *)&original_attributes},
    {"CreateDirectoryW", (FARPROC)directory, (FARPROC *)&original_directory},
    {NULL, NULL, NULL},
};
