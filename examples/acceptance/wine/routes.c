/* Routes that programs add (netioapi.h), which Wine 8 cannot do. ROUTES_FILE has them, one on a line:
 * "169.254.169.254/32 192.0.2.1 15 uplink" is the destination, the next hop, the metric and the adapter.
 * When a virtual switch takes an adapter, or goes, the adapter gets another name (adapters.c). A route is
 * there while an adapter has its name: the switch swallows the others.
 */
#include <stdio.h>
#include "redirect.h"
#include <ws2tcpip.h>
#include <iphlpapi.h>

#define ROUTES_FILE "C:\\windows\\routes-stand-in"
#define MOST 64

typedef struct {
    ULONG index;
    char name[300];
} adapter;

typedef struct {
    unsigned char to[4], via[4];
    unsigned bits, metric;
    char name[300];
} route;

static FARPROC original;

/* The adapters by the names that they have now. */
static int adapters_now(adapter list[MOST])
{
    int n = 0;
    ULONG size = 64 << 10;
    IP_ADAPTER_ADDRESSES *all = HeapAlloc(GetProcessHeap(), 0, size);
    ULONG(WINAPI * get)(ULONG, ULONG, PVOID, PIP_ADAPTER_ADDRESSES, PULONG) =
        (void *)GetProcAddress(LoadLibraryA("iphlpapi.dll"), "GetAdaptersAddresses");
    if (all && get && !get(AF_UNSPEC, 0, NULL, all, &size))
        for (IP_ADAPTER_ADDRESSES *a = all; a && n < MOST; a = a->Next) {
            WCHAR *name = adapter_on_switch(a->FriendlyName);
            list[n].index = a->IfIndex;
            WideCharToMultiByte(CP_UTF8, 0, name ? name : a->FriendlyName, -1, list[n].name, sizeof list[n].name, NULL, NULL);
            n++;
        }
    if (all)
        HeapFree(GetProcessHeap(), 0, all);
    return n;
}

static int index_of(const adapter list[], int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return i;
    return -1;
}

/* The routes that are there, each with its adapter in on. */
static int routes_now(const adapter list[], int n, route out[MOST], int on[MOST])
{
    int found = 0;
    char line[400];
    FILE *f = fopen(ROUTES_FILE, "r");
    while (f && found < MOST && fgets(line, sizeof line, f)) {
        route r;
        unsigned a[4], b[4];
        if (sscanf(line, "%u.%u.%u.%u/%u %u.%u.%u.%u %u %299[^\r\n]", &a[0], &a[1], &a[2], &a[3], &r.bits, &b[0], &b[1], &b[2], &b[3], &r.metric, r.name) != 11)
            continue;
        for (int i = 0; i < 4; i++)
            r.to[i] = a[i], r.via[i] = b[i];
        on[found] = index_of(list, n, r.name);
        if (on[found] >= 0)
            out[found++] = r;
    }
    if (f)
        fclose(f);
    return found;
}

static DWORD WINAPI create(const MIB_IPFORWARD_ROW2 *row)
{
    static adapter list[MOST];
    static route routes[MOST];
    int on[MOST], adapters, n, i;
    DWORD status = ERROR_NOT_FOUND;
    route want = {.bits = row->DestinationPrefix.PrefixLength, .metric = row->Metric};
    if (row->DestinationPrefix.Prefix.si_family != AF_INET || row->NextHop.si_family != AF_INET)
        return ERROR_NOT_SUPPORTED;
    memcpy(want.to, &row->DestinationPrefix.Prefix.Ipv4.sin_addr, 4);
    memcpy(want.via, &row->NextHop.Ipv4.sin_addr, 4);
    EnterCriticalSection(&redirect_lock);
    adapters = adapters_now(list);
    n = routes_now(list, adapters, routes, on);
    for (i = 0; i < adapters; i++)
        if (list[i].index == row->InterfaceIndex) {
            strcpy(want.name, list[i].name);
            status = NO_ERROR;
        }
    for (i = 0; i < n; i++)
        if (!memcmp(routes[i].to, want.to, 4) && !memcmp(routes[i].via, want.via, 4) && routes[i].bits == want.bits && !strcmp(routes[i].name, want.name))
            status = ERROR_OBJECT_ALREADY_EXISTS;
    if (n == MOST)
        status = ERROR_NOT_ENOUGH_MEMORY;
    FILE *f = status ? NULL : fopen(ROUTES_FILE, "wb");
    if (f) {
        routes[n++] = want;
        for (i = 0; i < n; i++) {
            const route *r = &routes[i];
            fprintf(f, "%u.%u.%u.%u/%u %u.%u.%u.%u %u %s\n", r->to[0], r->to[1], r->to[2], r->to[3], r->bits, r->via[0], r->via[1], r->via[2], r->via[3], r->metric, r->name);
        }
        fclose(f);
    }
    LeaveCriticalSection(&redirect_lock);
    return status;
}

static DWORD WINAPI table(ADDRESS_FAMILY family, PMIB_IPFORWARD_TABLE2 *out)
{
    static adapter list[MOST];
    static route routes[MOST];
    int on[MOST], n;
    DWORD status = ((DWORD(WINAPI *)(ADDRESS_FAMILY, PMIB_IPFORWARD_TABLE2 *))original)(family, out);
    if (status || family == AF_INET6)
        return status;
    EnterCriticalSection(&redirect_lock);
    n = routes_now(list, adapters_now(list), routes, on);
    MIB_IPFORWARD_TABLE2 *more = n ? HeapReAlloc(GetProcessHeap(), 0, *out, sizeof *more + ((*out)->NumEntries + n) * sizeof *more->Table) : NULL;
    for (int i = 0; more && i < n; i++) {
        MIB_IPFORWARD_ROW2 *row = &more->Table[more->NumEntries++];
        memset(row, 0, sizeof *row);
        row->InterfaceIndex = list[on[i]].index;
        row->Metric = routes[i].metric;
        row->DestinationPrefix.PrefixLength = routes[i].bits;
        row->DestinationPrefix.Prefix.si_family = row->NextHop.si_family = AF_INET;
        memcpy(&row->DestinationPrefix.Prefix.Ipv4.sin_addr, routes[i].to, 4);
        memcpy(&row->NextHop.Ipv4.sin_addr, routes[i].via, 4);
    }
    if (more)
        *out = more;
    LeaveCriticalSection(&redirect_lock);
    return status;
}

const redirection route_redirections[] = {
    {"CreateIpForwardEntry2", (FARPROC)create, NULL},
    {"GetIpForwardTable2", (FARPROC)table, &original},
    {NULL, NULL, NULL},
};
