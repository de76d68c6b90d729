/* Service settings that Wine 8 refuses with ERROR_INVALID_LEVEL: recovery actions,
 * delayed start, failure flag and SID type. They are kept in the registry values
 * below the service's key in which Windows keeps them. Wine stores and returns
 * them this way; it never acts on them. QueryServiceConfigW gets the dependencies,
 * which Wine 8 leaves out.
 */
#include <string.h>
#include <wchar.h>
#include "redirect.h"

#define HANDLES 256
#define ACTIONS 32
#define TEXT_LIMIT 512
/* FailureActions: reset period, 2 unused words, count, offset of the first action, then pairs. */
#define HEADER_WORDS 5
#define RESET_WORD 0
#define COUNT_WORD 3
#define OFFSET_WORD 4

/* The names behind service handles, the oldest overwritten. */
static struct {
    SC_HANDLE handle;
    WCHAR name[257];
} table[HANDLES];

static void remember(SC_HANDLE handle, LPCWSTR name)
{
    static int next;
    int i;
    DWORD error = GetLastError();
    if (handle) {
        EnterCriticalSection(&redirect_lock);
        for (i = 0; i < HANDLES && table[i].handle != handle; i++)
            ;
        if (i == HANDLES)
            i = next++ % HANDLES;
        table[i].handle = handle;
        wcsncpy(table[i].name, name, 256);
        LeaveCriticalSection(&redirect_lock);
    }
    SetLastError(error);
}

/* The registry key of a service, NULL if it has none. */
static HKEY open_key(LPCWSTR name)
{
    WCHAR path[320] = L"SYSTEM\\CurrentControlSet\\Services\\";
    HKEY key;
    wcsncat(path, name, 256);
    return RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_ALL_ACCESS, &key) ? NULL : key;
}

/* The error with which a service of somebody else refuses to be opened (StandInOpenError of its key) or read
 * (StandInQueryError); 0 = none. Real ones do so whose display name cannot be loaded (15100), or which a security
 * product guards (5).
 */
static DWORD refusal(HKEY key, LPCWSTR value)
{
    DWORD error = 0, n = sizeof error;
    if (!key || RegQueryValueExW(key, value, NULL, NULL, (BYTE *)&error, &n))
        return 0;
    return error;
}

static SC_HANDLE WINAPI open_service(SC_HANDLE manager, LPCWSTR name, DWORD access)
{
    HKEY key = open_key(name);
    DWORD refused = refusal(key, L"StandInOpenError");
    if (key)
        RegCloseKey(key);
    if (refused) {
        SetLastError(refused);
        return NULL;
    }
    SC_HANDLE h = OpenServiceW(manager, name, access);
    remember(h, name);
    return h;
}

static SC_HANDLE WINAPI create_service(SC_HANDLE manager, LPCWSTR name, LPCWSTR display, DWORD access, DWORD type,
                                       DWORD start, DWORD error, LPCWSTR binary, LPCWSTR group, LPDWORD tag,
                                       LPCWSTR dependencies, LPCWSTR user, LPCWSTR password)
{
    SC_HANDLE h = CreateServiceW(manager, name, display, access, type, start, error, binary, group, tag, dependencies, user, password);
    remember(h, name);
    return h;
}

/* The registry key of the service behind a handle, NULL if not known. */
static HKEY key_of(SC_HANDLE handle)
{
    HKEY key = NULL;
    EnterCriticalSection(&redirect_lock);
    for (int i = 0; i < HANDLES; i++)
        if (table[i].handle == handle) {
            key = open_key(table[i].name);
            break;
        }
    LeaveCriticalSection(&redirect_lock);
    return key;
}

/* The value that holds a level of one DWORD, NULL for other levels. */
static const WCHAR *value_of(DWORD level)
{
    switch (level) {
    case SERVICE_CONFIG_DELAYED_AUTO_START_INFO:
        return L"DelayedAutostart";
    case SERVICE_CONFIG_FAILURE_ACTIONS_FLAG:
        return L"FailureActionsOnNonCrashFailures";
    case SERVICE_CONFIG_SERVICE_SID_INFO:
        return L"ServiceSidType";
    }
    return NULL;
}

/* NULL leaves a text as it is, "" removes it. */
static void set_text(HKEY key, LPCWSTR value, LPCWSTR text)
{
    if (!text)
        return;
    if (*text)
        RegSetValueExW(key, value, 0, REG_SZ, (const BYTE *)text, (DWORD)(2 * (wcslen(text) + 1)));
    else
        RegDeleteValueW(key, value);
}

static void set_recovery(HKEY key, const SERVICE_FAILURE_ACTIONSW *want)
{
    set_text(key, L"RebootMessage", want->lpRebootMsg);
    set_text(key, L"FailureCommand", want->lpCommand);
    if (!want->lpsaActions)
        return;
    DWORD count = want->cActions > ACTIONS ? ACTIONS : want->cActions;
    if (!count) {
        RegDeleteValueW(key, L"FailureActions");
        return;
    }
    DWORD words[HEADER_WORDS + 2 * ACTIONS] = {0};
    words[RESET_WORD] = want->dwResetPeriod;
    words[COUNT_WORD] = count;
    words[OFFSET_WORD] = 4 * HEADER_WORDS;
    for (DWORD i = 0; i < count; i++) {
        words[HEADER_WORDS + 2 * i] = want->lpsaActions[i].Type;
        words[HEADER_WORDS + 2 * i + 1] = want->lpsaActions[i].Delay;
    }
    RegSetValueExW(key, L"FailureActions", 0, REG_BINARY, (BYTE *)words, 4 * (HEADER_WORDS + 2 * count));
}

static BOOL get_recovery(HKEY key, LPBYTE buffer, DWORD size, LPDWORD needed)
{
    DWORD words[HEADER_WORDS + 2 * ACTIONS] = {0}, n = sizeof words;
    WCHAR message[TEXT_LIMIT] = {0}, command[TEXT_LIMIT] = {0};
    DWORD message_size = sizeof message - 2, command_size = sizeof command - 2;
    if (RegQueryValueExW(key, L"FailureActions", NULL, NULL, (BYTE *)words, &n))
        memset(words, 0, sizeof words);
    if (RegQueryValueExW(key, L"RebootMessage", NULL, NULL, (BYTE *)message, &message_size))
        message[0] = 0;
    if (RegQueryValueExW(key, L"FailureCommand", NULL, NULL, (BYTE *)command, &command_size))
        command[0] = 0;

    DWORD count = words[COUNT_WORD] > ACTIONS ? ACTIONS : words[COUNT_WORD];
    message_size = *message ? (DWORD)(2 * (wcslen(message) + 1)) : 0;
    command_size = *command ? (DWORD)(2 * (wcslen(command) + 1)) : 0;
    *needed = sizeof(SERVICE_FAILURE_ACTIONSW) + count * sizeof(SC_ACTION) + message_size + command_size;
    if (size < *needed) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    SERVICE_FAILURE_ACTIONSW *have = (void *)buffer;
    BYTE *rest = buffer + sizeof *have;
    memset(have, 0, sizeof *have);
    have->dwResetPeriod = words[RESET_WORD];
    have->cActions = count;
    if (count) {
        have->lpsaActions = (SC_ACTION *)rest;
        memcpy(rest, words + HEADER_WORDS, count * sizeof(SC_ACTION));
        rest += count * sizeof(SC_ACTION);
    }
    if (message_size) {
        have->lpRebootMsg = (void *)rest;
        memcpy(rest, message, message_size);
        rest += message_size;
    }
    if (command_size) {
        have->lpCommand = (void *)rest;
        memcpy(rest, command, command_size);
    }
    return TRUE;
}

static BOOL WINAPI change_config2(SC_HANDLE handle, DWORD level, LPVOID info)
{
    if (level != SERVICE_CONFIG_FAILURE_ACTIONS && !value_of(level))
        return ChangeServiceConfig2W(handle, level, info);
    HKEY key = key_of(handle);
    if (!key) {
        SetLastError(ERROR_INVALID_HANDLE);
        return FALSE;
    }
    if (info && level == SERVICE_CONFIG_FAILURE_ACTIONS)
        set_recovery(key, info);
    else if (info)
        RegSetValueExW(key, value_of(level), 0, REG_DWORD, info, 4);
    RegCloseKey(key);
    return TRUE;
}

static BOOL WINAPI query_config2(SC_HANDLE handle, DWORD level, LPBYTE buffer, DWORD size, LPDWORD needed)
{
    if (level != SERVICE_CONFIG_FAILURE_ACTIONS && !value_of(level))
        return QueryServiceConfig2W(handle, level, buffer, size, needed);
    HKEY key = key_of(handle);
    if (!key) {
        SetLastError(ERROR_INVALID_HANDLE);
        return FALSE;
    }
    BOOL ok;
    if (level == SERVICE_CONFIG_FAILURE_ACTIONS) {
        ok = get_recovery(key, buffer, size, needed);
    } else {
        DWORD word = 0, n = sizeof word;
        if (RegQueryValueExW(key, value_of(level), NULL, NULL, (BYTE *)&word, &n))
            word = 0;
        *needed = sizeof word;
        ok = size >= sizeof word;
        if (ok)
            *(DWORD *)buffer = word;
        else
            SetLastError(ERROR_INSUFFICIENT_BUFFER);
    }
    RegCloseKey(key);
    return ok;
}

/* Reserves the end of the caller's buffer for the dependencies. */
static BOOL WINAPI query_config(SC_HANDLE handle, QUERY_SERVICE_CONFIGW *config, DWORD size, LPDWORD needed)
{
    WCHAR dependencies[1024] = {0};
    DWORD n = sizeof dependencies - 4; /* ends with two NULs whatever the registry holds */
    HKEY key = key_of(handle);
    DWORD refused = refusal(key, L"StandInQueryError");
    if (refused) {
        RegCloseKey(key);
        SetLastError(refused);
        return FALSE;
    }
    if (!key || RegQueryValueExW(key, L"DependOnService", NULL, NULL, (BYTE *)dependencies, &n))
        n = 0;
    if (key)
        RegCloseKey(key);
    DWORD room = (size > n ? size - n : 0) & ~1u;
    BOOL ok = QueryServiceConfigW(handle, config, room, needed);
    *needed += n + 1;
    if (ok && n && (!config->lpDependencies || !*config->lpDependencies)) {
        config->lpDependencies = (WCHAR *)((BYTE *)config + room);
        memcpy(config->lpDependencies, dependencies, n);
    }
    return ok;
}

const redirection service_config_redirections[] = {
    {"OpenServiceW", (FARPROC)open_service, NULL},
    {"CreateServiceW", (FARPROC)create_service, NULL},
    {"QueryServiceConfigW", (FARPROC)query_config, NULL},
    {"QueryServiceConfig2W", (FARPROC)query_config2, NULL},
    {"ChangeServiceConfig2W", (FARPROC)change_config2, NULL},
    {NULL, NULL, NULL},
};
