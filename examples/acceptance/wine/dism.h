/* What the parts of the stand-in for the DISM API share. */
#include <windows.h>
#include <dismapi.h>

#define API __declspec(dllexport) HRESULT WINAPI

/* What a call on a session begins with. */
HRESULT dism_begin(DismSession session);

/* Opens or makes a key of the machine; NULL where that fails. */
HKEY dism_key(const WCHAR *path, const WCHAR *below, DWORD options);
