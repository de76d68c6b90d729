/* InitiateSystemShutdownExW and AbortSystemShutdownW, which Wine 8 answers with success and nothing else. What is
 * asked for is written to ASKED; the test that sees the file ends the machine and boots it.
 */
#include <stdio.h>
#include "redirect.h"

#ifndef ERROR_SHUTDOWN_IS_SCHEDULED
#define ERROR_SHUTDOWN_IS_SCHEDULED 1190 /* winerror.h; mingw lacks it */
#endif
#define ASKED L"C:\\windows\\shutdown-stand-in.asked"

static BOOL holds(const WCHAR *privilege)
{
    PRIVILEGE_SET wanted = {1, PRIVILEGE_SET_ALL_NECESSARY};
    HANDLE token;
    BOOL held = FALSE;
    if (!LookupPrivilegeValueW(NULL, privilege, &wanted.Privilege[0].Luid) || !OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return FALSE;
    PrivilegeCheck(token, &wanted, &held);
    CloseHandle(token);
    return held;
}

/* A login by SSH is a network logon, whose requests Windows takes for those of another machine. */
static BOOL network_logon(void) { return GetEnvironmentVariableW(L"SSH_CONNECTION", NULL, 0) != 0; }

/* What Windows answers to a second request: that one is scheduled, until its time has come. The file begins with that
 * time in seconds, and was last written when it was asked for.
 */
static DWORD refusal(void)
{
    DWORD code = ERROR_SHUTDOWN_IS_SCHEDULED, got;
    unsigned long timeout;
    char text[64] = "";
    FILETIME written, now;
    HANDLE f = CreateFileW(ASKED, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (f == INVALID_HANDLE_VALUE)
        return code;
    GetSystemTimeAsFileTime(&now);
    if (ReadFile(f, text, sizeof text - 1, &got, NULL) && sscanf(text, "%lu", &timeout) == 1 && GetFileTime(f, NULL, NULL, &written)) {
        ULONGLONG then = (ULONGLONG)written.dwHighDateTime << 32 | written.dwLowDateTime;
        ULONGLONG at = (ULONGLONG)now.dwHighDateTime << 32 | now.dwLowDateTime;
        if (at >= then + timeout * 10000000ULL)
            code = ERROR_SHUTDOWN_IN_PROGRESS;
    }
    CloseHandle(f);
    return code;
}

static BOOL WINAPI initiate(LPWSTR machine, LPWSTR message, DWORD timeout, BOOL force, BOOL reboot, DWORD reason)
{
    char text[64];
    DWORD written;
    if (machine || !holds(network_logon() ? L"SeRemoteShutdownPrivilege" : L"SeShutdownPrivilege")) {
        SetLastError(ERROR_ACCESS_DENIED);
        return FALSE;
    }
    HANDLE f = CreateFileW(ASKED, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_NEW, 0, NULL);
    if (f == INVALID_HANDLE_VALUE) {
        if (GetLastError() == ERROR_FILE_EXISTS)
            SetLastError(refusal());
        return FALSE;
    }
    int n = sprintf(text, "%lu %d %d %#lx\n", timeout, force, reboot, reason);
    BOOL ok = WriteFile(f, text, n, &written, NULL);
    CloseHandle(f);
    return ok;
}

static BOOL WINAPI abort_shutdown(LPWSTR machine)
{
    if (machine || !holds(network_logon() ? L"SeRemoteShutdownPrivilege" : L"SeShutdownPrivilege")) {
        SetLastError(ERROR_ACCESS_DENIED);
        return FALSE;
    }
    if (DeleteFileW(ASKED))
        return TRUE;
    SetLastError(ERROR_NO_SHUTDOWN_IN_PROGRESS);
    return FALSE;
}

const redirection shutdown_redirections[] = {
    {"AbortSystemShutdownW", (FARPROC)abort_shutdown, NULL},
    {"InitiateSystemShutdownExW", (FARPROC)initiate, NULL},
    {NULL, NULL, NULL},
};
