/* Go deletes and renames files with information classes of Windows 10, and falls
 * back to the older ones where a class is not known. Wine 8 answers "not
 * implemented" instead of "invalid class", which Go takes for a failure.
 */
#include "redirect.h"

#define NOT_IMPLEMENTED ((LONG)0xC0000002) /* STATUS_NOT_IMPLEMENTED */
#define INVALID_CLASS ((LONG)0xC0000003)   /* STATUS_INVALID_INFO_CLASS */

static FARPROC original;

static LONG WINAPI set_information(HANDLE file, PVOID status, PVOID information, ULONG size, ULONG class)
{
    LONG result = ((LONG(WINAPI *)(HANDLE, PVOID, PVOID, ULONG, ULONG))original)(file, status, information, size, class);
    return result == NOT_IMPLEMENTED ? INVALID_CLASS : result;
}

const redirection file_information_redirections[] = {
    {"NtSetInformationFile", (FARPROC)set_information, &original},
    {NULL, NULL, NULL},
};
