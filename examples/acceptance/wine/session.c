/* svc.IsWindowsService of golang.org/x/sys asks whether the parent process is
 * services.exe in session 0. Wine 8 reports that process in another session.
 */
#include <wchar.h>
#include "redirect.h"

#define SYSTEM_PROCESS_INFORMATION_CLASS 5
/* Offsets in SYSTEM_PROCESS_INFORMATION, 64 bit. */
#define NAME_LENGTH_AT 56
#define NAME_AT 64
#define SESSION_AT 100

static FARPROC original;

static LONG WINAPI query(ULONG class, PVOID buffer, ULONG size, PULONG needed)
{
    LONG status = ((LONG(WINAPI *)(ULONG, PVOID, ULONG, PULONG))original)(class, buffer, size, needed);
    if (class != SYSTEM_PROCESS_INFORMATION_CLASS || status)
        return status;
    for (BYTE *p = buffer;;) {
        USHORT length = *(USHORT *)(p + NAME_LENGTH_AT);
        WCHAR *name = *(WCHAR **)(p + NAME_AT);
        if (name && length == 2 * wcslen(L"services.exe") && !_wcsnicmp(name, L"services.exe", length / 2))
            *(ULONG *)(p + SESSION_AT) = 0;
        ULONG next = *(ULONG *)p;
        if (!next)
            return status;
        p += next;
    }
}

const redirection session_redirections[] = {
    {"NtQuerySystemInformation", (FARPROC)query, &original},
    {NULL, NULL, NULL},
};
