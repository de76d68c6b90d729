/* The adapter of a virtual switch.
 *
 * When the first network of HNS makes a virtual switch on an adapter, the machine's address
 * moves to a new one, "vEthernet (NAME)". The file SWITCH_FILE has the name of the adapter
 * with a switch; there is none while no adapter has one.
 */
#include <wchar.h>
#include "redirect.h"
#include <iphlpapi.h>

#define SWITCH_FILE "C:\\windows\\switch-stand-in"

static FARPROC original;

/* The new name of an adapter, to be kept: callers read it as long as they have the list. NULL: it has its own. */
WCHAR *adapter_on_switch(const WCHAR *adapter)
{
    char name[256] = {0};
    WCHAR wide[256];
    DWORD n = 0;
    HANDLE f = CreateFileA(SWITCH_FILE, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (f == INVALID_HANDLE_VALUE)
        return NULL;
    ReadFile(f, name, sizeof name - 1, &n, NULL);
    CloseHandle(f);
    MultiByteToWideChar(CP_UTF8, 0, name, -1, wide, 256);
    if (wcscmp(wide, adapter))
        return NULL;
    static WCHAR kept[280];
    swprintf(kept, 280, L"vEthernet (%ls)", wide);
    return kept;
}

static ULONG WINAPI adapters(ULONG family, ULONG flags, PVOID reserved, PIP_ADAPTER_ADDRESSES list, PULONG size)
{
    ULONG status = ((ULONG(WINAPI *)(ULONG, ULONG, PVOID, PIP_ADAPTER_ADDRESSES, PULONG))original)(family, flags, reserved, list, size);
    if (status || !list)
        return status;
    for (PIP_ADAPTER_ADDRESSES a = list; a; a = a->Next) {
        WCHAR *name = a->FriendlyName ? adapter_on_switch(a->FriendlyName) : NULL;
        if (name)
            a->FriendlyName = name;
    }
    return status;
}

const redirection adapter_redirections[] = {
    {"GetAdaptersAddresses", (FARPROC)adapters, &original},
    {NULL, NULL, NULL},
};
