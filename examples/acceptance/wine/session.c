/* What NtQuerySystemInformation says of processes and of the clock.
 *
 * svc.IsWindowsService of golang.org/x/sys asks whether the parent process is
 * services.exe in session 0. Wine 8 reports that process in another session.
 *
 * On Windows a step of the clock moves the time of the boot along, and is summed up in
 * its bias. Here it is the value ClockStep (100 ns) of STAND_IN_KEY.
 */
#include <wchar.h>
#include "redirect.h"

#define STAND_IN_KEY L"SOFTWARE\\nodejoin-stand-in"
#define SYSTEM_TIMEOFDAY_INFORMATION_CLASS 3
#define SYSTEM_PROCESS_INFORMATION_CLASS 5
/* Offsets in SYSTEM_PROCESS_INFORMATION, 64 bit. */
#define NAME_LENGTH_AT 56
#define NAME_AT 64
#define SESSION_AT 100

static FARPROC original;

/* SYSTEM_TIMEOFDAY_INFORMATION */
typedef struct {
    LONGLONG boot, now, zone;
    ULONG zone_id, reserved;
    ULONGLONG boot_bias, sleep_bias;
} time_of_day;

static void step_clock(time_of_day *t)
{
    LONGLONG step = 0;
    DWORD n = sizeof step;
    if (RegGetValueW(HKEY_LOCAL_MACHINE, STAND_IN_KEY, L"ClockStep", RRF_RT_REG_QWORD, NULL, &step, &n))
        return;
    t->boot += step;
    t->now += step;
    t->boot_bias = step;
}

static LONG WINAPI query(ULONG class, PVOID buffer, ULONG size, PULONG needed)
{
    LONG status = ((LONG(WINAPI *)(ULONG, PVOID, ULONG, PULONG))original)(class, buffer, size, needed);
    if (class == SYSTEM_TIMEOFDAY_INFORMATION_CLASS && !status && size >= sizeof(time_of_day))
        step_clock(buffer);
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
