/* Replaces the program's imported GetProcAddress; see redirect.h. */
#include <string.h>
#include "redirect.h"

CRITICAL_SECTION redirect_lock;

static FARPROC(WINAPI *original_GetProcAddress)(HMODULE, LPCSTR);

static const redirection *const tables[] = {
    symlink_redirections,
    access_redirections,
    udp_redirections,
    file_information_redirections,
    unix_socket_redirections,
    session_redirections,
    service_config_redirections,
    service_status_redirections,
    shutdown_redirections,
    reservation_redirections,
    adapter_redirections,
    route_redirections,
    slash_redirections,
};

static FARPROC WINAPI redirected_GetProcAddress(HMODULE module, LPCSTR name)
{
    FARPROC found = original_GetProcAddress(module, name);
    if ((ULONG_PTR)name < 0x10000) /* asked for by ordinal */
        return found;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const redirection *r = tables[t]; r->name; r++)
            if (!strcmp(name, r->name)) {
                if (!r->original)
                    return r->replacement;
                if (found)
                    *r->original = found;
                return found ? r->replacement : NULL;
            }
    return found;
}

static void replace(void **slot)
{
    DWORD protection;
    if (!VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &protection))
        return;
    original_GetProcAddress = (void *)*slot;
    *slot = (void *)redirected_GetProcAddress;
    VirtualProtect(slot, sizeof *slot, protection, &protection);
}

void redirect_install(void)
{
    BYTE *base = (BYTE *)GetModuleHandleA(NULL);
    IMAGE_NT_HEADERS *headers = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    IMAGE_DATA_DIRECTORY imports = headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    if (!imports.VirtualAddress)
        return;
    void *exported = (void *)GetProcAddress(GetModuleHandleA("kernel32.dll"), "GetProcAddress");
    for (IMAGE_IMPORT_DESCRIPTOR *d = (void *)(base + imports.VirtualAddress); d->Name; d++)
        for (void **slot = (void **)(base + d->FirstThunk); *slot; slot++)
            if (*slot == exported || *slot == (void *)GetProcAddress)
                replace(slot);
}
