/* Stand-in for bcryptprimitives.dll, which Wine 8 does not have and every Go
 * program since Go 1.22 needs for ProcessPrng. With NO_WINE_GO_SHIM in the
 * environment it is only that; otherwise it also installs the redirections.
 */
#include "redirect.h"

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size); /* RtlGenRandom, advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T size)
{
    while (size) {
        ULONG part = size > 0x40000000 ? 0x40000000 : (ULONG)size;
        if (!SystemFunction036(buffer, part))
            return FALSE;
        buffer += part;
        size -= part;
    }
    return TRUE;
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved)
{
    if (reason == DLL_PROCESS_ATTACH) {
        InitializeCriticalSection(&redirect_lock);
        if (!GetEnvironmentVariableA("NO_WINE_GO_SHIM", NULL, 0))
            redirect_install();
    }
    return TRUE;
}
