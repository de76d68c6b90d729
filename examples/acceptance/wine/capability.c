/* Capabilities of the stand-in for the DISM API: OpenSSH's server, as before Windows Server 2025.
 *
 * Its files come from UPDATE, which stands for Windows Update. That serves neither who logged in over the
 * network nor programs that they start; here it serves the processes of services, which run as SYSTEM.
 * While there is a file HOLD the server does not answer.
 */
#include <shlwapi.h>
#include <tlhelp32.h>
#include <wchar.h>
#include "dism.h"

#define CAPABILITY L"OpenSSH.Server~~~~0.0.1.0"
#define UPDATE L"C:\\windows\\update-stand-in\\"
#define HOLD UPDATE L"hold"
#define INSTALLED L"C:\\windows\\system32\\OpenSSH"
#define KEY L"SOFTWARE\\nodejoin-stand-in\\Capabilities"
#define E_SOURCE_MISSING ((HRESULT)0x800f081f)
#define MOST_WAIT 120000 /* milliseconds */

static const WCHAR *const files[] = {L"sshd.exe", L"sshd_config_default"};

/* Whether this process is one of a service: its parent is the service manager. */
static BOOL of_service(void)
{
    PROCESSENTRY32W p = {.dwSize = sizeof p};
    DWORD parent = 0;
    HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    BOOL more, found = FALSE;
    for (more = Process32FirstW(all, &p); more; more = Process32NextW(all, &p))
        if (p.th32ProcessID == GetCurrentProcessId())
            parent = p.th32ParentProcessID;
    for (more = Process32FirstW(all, &p); more; more = Process32NextW(all, &p))
        if (parent && p.th32ProcessID == parent)
            found = !_wcsicmp(p.szExeFile, L"services.exe");
    CloseHandle(all);
    return found;
}

static DismPackageFeatureState state(void)
{
    DWORD value = DismStateNotPresent, size = sizeof value;
    HKEY k = dism_key(KEY, L"", REG_OPTION_NON_VOLATILE);
    RegQueryValueExW(k, CAPABILITY, NULL, NULL, (BYTE *)&value, &size);
    RegCloseKey(k);
    return value;
}

static void set_state(DismPackageFeatureState state)
{
    DWORD value = state;
    HKEY k = dism_key(KEY, L"", REG_OPTION_NON_VOLATILE);
    RegSetValueExW(k, CAPABILITY, 0, REG_DWORD, (BYTE *)&value, sizeof value);
    RegCloseKey(k);
}

static void forget_state(void)
{
    HKEY k = dism_key(KEY, L"", REG_OPTION_NON_VOLATILE);
    RegDeleteValueW(k, CAPABILITY);
    RegCloseKey(k);
}

static HRESULT begin(DismSession session, const WCHAR *name)
{
    HRESULT status = dism_begin(session);
    if (FAILED(status))
        return status;
    return _wcsicmp(name, CAPABILITY) ? DISMAPI_E_UNKNOWN_FEATURE : S_OK;
}

API DismGetCapabilityInfo(DismSession session, PCWSTR name, DismCapabilityInfo **info)
{
    HRESULT status = begin(session, name);
    if (FAILED(status))
        return status;
    if (!(*info = calloc(1, sizeof **info)))
        return E_OUTOFMEMORY;
    (*info)->Name = (*info)->DisplayName = (*info)->Description = CAPABILITY;
    (*info)->State = state();
    return S_OK;
}

/* Fetches the files and registers the service. */
static HRESULT install(void)
{
    SC_HANDLE manager, service;
    for (int i = 0; PathFileExistsW(HOLD); i += 20) {
        if (i > MOST_WAIT)
            return HRESULT_FROM_WIN32(ERROR_TIMEOUT);
        Sleep(20);
    }
    CreateDirectoryW(INSTALLED, NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        WCHAR from[MAX_PATH], to[MAX_PATH];
        _snwprintf(from, MAX_PATH, L"%ls%ls", UPDATE, files[i]);
        _snwprintf(to, MAX_PATH, L"%ls\\%ls", INSTALLED, files[i]);
        if (!CopyFileW(from, to, FALSE))
            return E_SOURCE_MISSING;
    }
    if (!(manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CREATE_SERVICE)))
        return HRESULT_FROM_WIN32(GetLastError());
    service = CreateServiceW(manager, L"sshd", L"OpenSSH SSH Server", SERVICE_ALL_ACCESS, SERVICE_WIN32_OWN_PROCESS,
                             SERVICE_DEMAND_START, SERVICE_ERROR_NORMAL, INSTALLED L"\\sshd.exe", NULL, NULL, NULL, NULL,
                             NULL);
    HRESULT status = service ? S_OK : HRESULT_FROM_WIN32(GetLastError());
    CloseServiceHandle(service);
    CloseServiceHandle(manager);
    return status;
}

API DismAddCapability(DismSession session, PCWSTR name, WINBOOL limit, PCWSTR *sources, UINT count, HANDLE cancel,
                      DISM_PROGRESS_CALLBACK progress, PVOID user)
{
    HRESULT status = begin(session, name);
    if (FAILED(status))
        return status;
    if (limit || sources || count || cancel || progress)
        return E_INVALIDARG;
    if (state() == DismStateInstalled)
        return S_OK;
    if (!of_service())
        return HRESULT_FROM_WIN32(ERROR_ACCESS_DENIED);
    if (SUCCEEDED(status = install()))
        set_state(DismStateInstalled);
    return status;
}

API DismRemoveCapability(DismSession session, PCWSTR name, HANDLE cancel, DISM_PROGRESS_CALLBACK progress, PVOID user)
{
    SC_HANDLE manager, service;
    HRESULT status = begin(session, name);
    if (FAILED(status))
        return status;
    if (cancel || progress)
        return E_INVALIDARG;
    if (state() != DismStateInstalled)
        return S_OK;
    manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
    service = OpenServiceW(manager, L"sshd", DELETE);
    if (service && !DeleteService(service))
        status = HRESULT_FROM_WIN32(GetLastError());
    CloseServiceHandle(service);
    CloseServiceHandle(manager);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        WCHAR path[MAX_PATH];
        _snwprintf(path, MAX_PATH, L"%ls\\%ls", INSTALLED, files[i]);
        DeleteFileW(path);
    }
    RemoveDirectoryW(INSTALLED);
    if (SUCCEEDED(status))
        forget_state();
    return status;
}
