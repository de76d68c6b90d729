/* Wine 8's CreateSymbolicLinkW returns TRUE and does nothing. Here a link to a file
 * is a copy of the file, a link to a folder an empty folder: enough for kubelet's
 * "current certificate" link, which is only read after it was made again.
 */
#include <wchar.h>
#include "redirect.h"

#define PATH_LIMIT 1024

static BOOLEAN WINAPI link_by_copy(LPCWSTR link, LPCWSTR target, DWORD flags)
{
    WCHAR absolute[PATH_LIMIT];
    BOOL relative = target[0] != L'\\' && !(target[0] && target[1] == L':');
    if (GetFileAttributesW(link) != INVALID_FILE_ATTRIBUTES) {
        SetLastError(ERROR_ALREADY_EXISTS);
        return FALSE;
    }
    if (relative) { /* to the folder of the link */
        size_t folder = 0, length = wcslen(link);
        if (length + wcslen(target) >= PATH_LIMIT) {
            SetLastError(ERROR_FILENAME_EXCED_RANGE);
            return FALSE;
        }
        for (size_t i = 0; i < length; i++)
            if (link[i] == L'\\' || link[i] == L'/')
                folder = i + 1;
        wmemcpy(absolute, link, folder);
        wcscpy(absolute + folder, target);
        target = absolute;
    }
    DWORD attributes = GetFileAttributesW(target);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        return CreateDirectoryW(link, NULL);
    return CopyFileW(target, link, TRUE);
}

const redirection symlink_redirections[] = {
    {"CreateSymbolicLinkW", (FARPROC)link_by_copy, NULL},
    {NULL, NULL, NULL},
};
