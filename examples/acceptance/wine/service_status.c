/* Wine 8's service manager does not notice that the process of a service has gone,
 * and shows for good what the service reported last; Windows shows it stopped. A
 * program that ends itself while its stop is pending, as kubelet.exe may, would be
 * waited for without end.
 */
#include "redirect.h"

static BOOL(WINAPI *original_query)(SC_HANDLE, SC_STATUS_TYPE, LPBYTE, DWORD, LPDWORD);

static BOOL gone(DWORD pid)
{
    HANDLE process = OpenProcess(SYNCHRONIZE, FALSE, pid);
    if (!process)
        return GetLastError() == ERROR_INVALID_PARAMETER; /* no such process */
    BOOL ended = WaitForSingleObject(process, 0) == WAIT_OBJECT_0;
    CloseHandle(process);
    return ended;
}

static BOOL WINAPI query_status(SC_HANDLE service, SC_STATUS_TYPE level, LPBYTE buffer, DWORD size, LPDWORD needed)
{
    if (!original_query(service, level, buffer, size, needed))
        return FALSE;
    SERVICE_STATUS_PROCESS *have = (void *)buffer;
    if (level == SC_STATUS_PROCESS_INFO && have->dwCurrentState != SERVICE_STOPPED && have->dwProcessId && gone(have->dwProcessId)) {
        if (have->dwCurrentState != SERVICE_STOP_PENDING)
            have->dwWin32ExitCode = ERROR_PROCESS_ABORTED; /* as Windows has it after a crash */
        have->dwCurrentState = SERVICE_STOPPED;
        have->dwControlsAccepted = have->dwCheckPoint = have->dwWaitHint = have->dwProcessId = 0;
    }
    return TRUE;
}

const redirection service_status_redirections[] = {
    {"QueryServiceStatusEx", (FARPROC)query_status, (FARPROC *)&original_query},
    {NULL, NULL, NULL},
};
