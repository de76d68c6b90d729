/* Stand-in for the DISM API (capabilities: capability.c): a handful of features of the running Windows, whose states
 * are values of FEATURES_KEY. A state that waits for a reboot has a volatile key below
 * PENDING_KEY; once that is gone the machine has booted, and the state is the next one.
 * What real servicing does while Windows boots, this does when it is first asked.
 *
 * Structures, states and codes are those of mingw's dismapi.h.
 */
#include <stdlib.h>
#include <wchar.h>
#include "dism.h"

#define FEATURES_KEY L"SOFTWARE\\nodejoin-stand-in\\Features"
#define PENDING_KEY L"SOFTWARE\\nodejoin-stand-in-pending"
/* Where servicing notes that it waits for a reboot; it is volatile on Windows, too. */
#define REBOOT_PENDING_KEY L"SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\Component Based Servicing\\RebootPending"
#define SERVICES_KEY L"SYSTEM\\CurrentControlSet\\Services\\"
#define SESSION 1

typedef struct {
    const WCHAR *name, *parent; /* parent: NULL = none */
    DismRestartType restart;
    DismPackageFeatureState factory;
    const WCHAR *services[2]; /* that it brings; NULL = none */
} feature;

static const feature features[] = {
    {L"Containers", NULL, DismRestartRequired, DismStateInstalled, {L"hns", L"vmcompute"}},
    {L"Microsoft-Hyper-V", NULL, DismRestartRequired, DismStateStaged, {NULL, NULL}},
    {L"IIS-WebServerRole", NULL, DismRestartNo, DismStateStaged, {NULL, NULL}},
    {L"IIS-WebServer", L"IIS-WebServerRole", DismRestartNo, DismStateStaged, {NULL, NULL}},
};

static BOOL initialized, open;

static const feature *find(const WCHAR *name)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (!_wcsicmp(features[i].name, name))
            return &features[i];
    return NULL;
}

HKEY dism_key(const WCHAR *path, const WCHAR *below, DWORD options)
{
    WCHAR full[256];
    HKEY k = NULL;
    _snwprintf(full, 256, L"%ls%ls", path, below);
    RegCreateKeyExW(HKEY_LOCAL_MACHINE, full, 0, NULL, options, KEY_READ | KEY_WRITE, NULL, &k, NULL);
    return k;
}

static BOOL pending_since_boot(const feature *f)
{
    WCHAR path[256];
    HKEY k;
    _snwprintf(path, 256, L"%ls\\%ls", PENDING_KEY, f->name);
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_READ, &k))
        return FALSE;
    RegCloseKey(k);
    return TRUE;
}

static void set_services(const feature *f, BOOL on)
{
    for (int i = 0; i < 2 && f->services[i]; i++) {
        DWORD manual = SERVICE_DEMAND_START;
        WCHAR path[256];
        _snwprintf(path, 256, L"%ls%ls", SERVICES_KEY, f->services[i]);
        if (on) {
            HKEY k = dism_key(path, L"", REG_OPTION_NON_VOLATILE);
            RegSetValueExW(k, L"Start", 0, REG_DWORD, (BYTE *)&manual, sizeof manual);
            RegCloseKey(k);
        } else
            RegDeleteTreeW(HKEY_LOCAL_MACHINE, path);
    }
}

static void set_state(const feature *f, DismPackageFeatureState state)
{
    DWORD value = state;
    HKEY k = dism_key(FEATURES_KEY, L"", REG_OPTION_NON_VOLATILE);
    RegSetValueExW(k, f->name, 0, REG_DWORD, (BYTE *)&value, sizeof value);
    RegCloseKey(k);
    if (state == DismStateInstallPending || state == DismStateUninstallPending) {
        RegCloseKey(dism_key(PENDING_KEY L"\\", f->name, REG_OPTION_VOLATILE));
        RegCloseKey(dism_key(REBOOT_PENDING_KEY, L"", REG_OPTION_VOLATILE));
        return;
    }
    set_services(f, state == DismStateInstalled);
}

static DismPackageFeatureState state_of(const feature *f)
{
    DWORD value, size = sizeof value;
    HKEY k = dism_key(FEATURES_KEY, L"", REG_OPTION_NON_VOLATILE);
    if (RegQueryValueExW(k, f->name, NULL, NULL, (BYTE *)&value, &size))
        value = f->factory;
    RegCloseKey(k);
    if ((value == DismStateInstallPending || value == DismStateUninstallPending) && !pending_since_boot(f)) {
        value = value == DismStateInstallPending ? DismStateInstalled : DismStateStaged;
        set_state(f, value);
    }
    return value;
}

API DismInitialize(DismLogLevel level, PCWSTR log, PCWSTR scratch)
{
    if (initialized) /* the header gives no code for it */
        return HRESULT_FROM_WIN32(ERROR_ALREADY_INITIALIZED);
    initialized = TRUE;
    return S_OK;
}

API DismShutdown(void)
{
    if (!initialized)
        return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    if (open)
        return DISMAPI_E_OPEN_SESSION_HANDLES;
    initialized = FALSE;
    return S_OK;
}

API DismOpenSession(PCWSTR image, PCWSTR windows, PCWSTR drive, DismSession *session)
{
    if (!initialized)
        return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    if (wcscmp(image, DISM_ONLINE_IMAGE) || windows || drive)
        return DISMAPI_E_MUST_SPECIFY_ONLINE_IMAGE;
    open = TRUE;
    *session = SESSION;
    return S_OK;
}

HRESULT dism_begin(DismSession session)
{
    if (!initialized)
        return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    if (!open || session != SESSION)
        return DISMAPI_E_INVALID_DISM_SESSION;
    return S_OK;
}

static HRESULT begin(DismSession session, const WCHAR *name, const feature **f)
{
    HRESULT status = dism_begin(session);
    if (FAILED(status))
        return status;
    if (!(*f = find(name)))
        return DISMAPI_E_UNKNOWN_FEATURE;
    return S_OK;
}

API DismCloseSession(DismSession session)
{
    HRESULT status = dism_begin(session);
    if (SUCCEEDED(status))
        open = FALSE;
    return status;
}

API DismGetFeatureInfo(DismSession session, PCWSTR name, PCWSTR identifier, DismPackageIdentifier kind, DismFeatureInfo **info)
{
    const feature *f;
    HRESULT status = begin(session, name, &f);
    if (FAILED(status))
        return status;
    if (identifier || kind != DismPackageNone)
        return E_INVALIDARG;
    if (!(*info = calloc(1, sizeof **info)))
        return E_OUTOFMEMORY;
    (*info)->FeatureName = (*info)->DisplayName = (*info)->Description = f->name;
    (*info)->FeatureState = state_of(f);
    (*info)->RestartRequired = f->restart;
    return S_OK;
}

API DismDelete(VOID *structure)
{
    free(structure);
    return S_OK;
}

/* Changes a feature to on or off, at once or with the next boot. */
static HRESULT change(const feature *f, DismPackageFeatureState want, DismPackageFeatureState pending)
{
    DismPackageFeatureState have = state_of(f);
    if (have == want)
        return S_OK;
    if (have == DismStateInstallPending || have == DismStateUninstallPending) {
        if (have != pending)
            set_state(f, want); /* what was asked for is taken back */
    } else
        set_state(f, f->restart == DismRestartRequired ? pending : want);
    if (f->restart != DismRestartRequired)
        return S_OK;
    /* The documentation names the code, and not in which form it comes: here each is met. */
    return want == DismStateInstalled ? HRESULT_FROM_WIN32(ERROR_SUCCESS_REBOOT_REQUIRED) : ERROR_SUCCESS_REBOOT_REQUIRED;
}

API DismEnableFeature(DismSession session, PCWSTR name, PCWSTR identifier, DismPackageIdentifier kind, WINBOOL limit, PCWSTR *sources,
                      UINT count, WINBOOL all, HANDLE cancel, DISM_PROGRESS_CALLBACK progress, PVOID user)
{
    const feature *f, *parent;
    HRESULT status = begin(session, name, &f);
    if (FAILED(status))
        return status;
    if (identifier || kind != DismPackageNone || sources || count || cancel || progress)
        return E_INVALIDARG;
    if (f->parent && state_of(parent = find(f->parent)) != DismStateInstalled) {
        if (!all)
            return DISMAPI_E_PARENT_FEATURE_DISABLED;
        if (FAILED(status = change(parent, DismStateInstalled, DismStateInstallPending)))
            return status;
    }
    return change(f, DismStateInstalled, DismStateInstallPending);
}

API DismDisableFeature(DismSession session, PCWSTR name, PCWSTR package, WINBOOL remove, HANDLE cancel, DISM_PROGRESS_CALLBACK progress,
                       PVOID user)
{
    const feature *f;
    HRESULT status = begin(session, name, &f);
    if (FAILED(status))
        return status;
    if (package || remove || cancel || progress)
        return E_INVALIDARG;
    return change(f, DismStateStaged, DismStateUninstallPending);
}
