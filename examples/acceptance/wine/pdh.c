/* Stand-in for pdh.dll: fixed, plausible values for the performance counters that
 * kubelet.exe asks for. Wine's own knows none of them.
 */
#include <windows.h>
#include <string.h>

#define API __declspec(dllexport) LONG WINAPI
#define MORE_DATA ((LONG)0x800007D2) /* PDH_MORE_DATA */

typedef struct {
    DWORD status;
    DWORD padding;
    double value;
} counter_value;

typedef struct {
    WCHAR *name;
    counter_value value;
} counter_item;

static double value_of(const WCHAR *counter)
{
    if (wcsstr(counter, L"Processor Time"))
        return 7.0; /* percent */
    if (wcsstr(counter, L"Working Set"))
        return 700.0 * 1024 * 1024;
    if (wcsstr(counter, L"Committed"))
        return 1024.0 * 1024 * 1024;
    return 0.0;
}

API PdhOpenQuery(void *source, void *user, HANDLE *query) { *query = (HANDLE)1; return 0; }
API PdhCloseQuery(HANDLE query) { return 0; }
API PdhCollectQueryData(HANDLE query) { return 0; }
API PdhValidatePathW(const WCHAR *path) { return 0; }

API PdhAddEnglishCounterW(HANDLE query, const WCHAR *counter, void *user, double **handle)
{
    *handle = HeapAlloc(GetProcessHeap(), 0, sizeof(double));
    **handle = value_of(counter);
    return 0;
}

API PdhAddCounterW(HANDLE query, const WCHAR *counter, void *user, double **handle)
{
    return PdhAddEnglishCounterW(query, counter, user, handle);
}

API PdhGetFormattedCounterValue(double *handle, DWORD format, DWORD *type, counter_value *value)
{
    value->status = 0;
    value->value = *handle;
    return 0;
}

/* One item, "_Total", whose name follows it in the buffer. */
API PdhGetFormattedCounterArrayW(double *handle, DWORD format, DWORD *size, DWORD *count, counter_item *items)
{
    static const WCHAR total[] = L"_Total";
    DWORD needed = sizeof *items + 16;
    *count = 1;
    if (*size < needed) {
        *size = needed;
        return MORE_DATA;
    }
    items->name = (WCHAR *)(items + 1);
    memcpy(items->name, total, sizeof total);
    items->value.status = 0;
    items->value.value = *handle;
    return 0;
}
