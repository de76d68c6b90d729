/* Stand-in for the Host Networking Service, built twice: as vmcompute.dll (HNSCall)
 * and as computenetwork.dll (the Hcn calls). Each call goes over TCP to a server
 * that the test runs and that keeps the objects; no packet is ever handled.
 *
 * The port is in C:\windows\hns-stand-in.port. A request is four strings (operation,
 * id, settings, parent), each a u32 length and UTF-8; the answer is a u32 HRESULT, a
 * u64 handle and a string. Numbers are little-endian.
 */
#include <winsock2.h>
#include <windows.h>
#include <objbase.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __declspec(dllexport) HRESULT WINAPI
#define PORT_FILE "C:\\windows\\hns-stand-in.port"
#define NOT_INSTALLED ((HRESULT)REGDB_E_CLASSNOTREG) /* no port file: the feature Containers is off (moby/moby#34920) */
#define NOT_RUNNING HRESULT_FROM_WIN32(ERROR_SERVICE_NOT_ACTIVE)       /* nobody at the port */

static int send_all(SOCKET s, const char *p, int n)
{
    while (n > 0) {
        int k = send(s, p, n, 0);
        if (k <= 0)
            return -1;
        p += k;
        n -= k;
    }
    return 0;
}

static int receive_all(SOCKET s, char *p, int n)
{
    while (n > 0) {
        int k = recv(s, p, n, 0);
        if (k <= 0)
            return -1;
        p += k;
        n -= k;
    }
    return 0;
}

static int send_string(SOCKET s, const char *text)
{
    unsigned n = text ? (unsigned)strlen(text) : 0;
    return send_all(s, (char *)&n, sizeof n) || (n && send_all(s, text, n));
}

/* To be freed; NULL for NULL. */
static char *to_utf8(const WCHAR *wide)
{
    if (!wide)
        return NULL;
    int n = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = malloc(n);
    if (text)
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, n, NULL, NULL);
    return text;
}

/* As the callers free it, with CoTaskMemFree; NULL for "". */
static WCHAR *to_result(const char *text)
{
    if (!*text)
        return NULL;
    int n = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    WCHAR *wide = CoTaskMemAlloc(n * sizeof *wide);
    if (wide)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, n);
    return wide;
}

static unsigned short port(void)
{
    char text[16] = {0};
    DWORD n;
    HANDLE f = CreateFileA(PORT_FILE, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (f == INVALID_HANDLE_VALUE)
        return 0;
    ReadFile(f, text, sizeof text - 1, &n, NULL);
    CloseHandle(f);
    return (unsigned short)atoi(text);
}

static HRESULT call(const char *operation, const char *id, const WCHAR *settings, const char *parent, UINT64 *handle, WCHAR **result)
{
    WSADATA data;
    struct sockaddr_in a;
    HRESULT status = NOT_RUNNING;
    unsigned short number_of_port = port();
    if (result)
        *result = NULL;
    if (!number_of_port)
        return NOT_INSTALLED;
    WSAStartup(0x202, &data);
    SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(number_of_port);
    if (!connect(s, (struct sockaddr *)&a, sizeof a)) {
        char *text = to_utf8(settings), *answer = NULL;
        unsigned code = 0, size = 0;
        UINT64 number = 0;
        if (!send_string(s, operation) && !send_string(s, id) && !send_string(s, text) && !send_string(s, parent) &&
            !receive_all(s, (char *)&code, sizeof code) && !receive_all(s, (char *)&number, sizeof number) &&
            !receive_all(s, (char *)&size, sizeof size) && (answer = calloc(1, (size_t)size + 1)) &&
            !receive_all(s, answer, size)) {
            status = code;
            if (handle)
                *handle = number;
            if (result)
                *result = to_result(answer);
        }
        free(answer);
        free(text);
    }
    closesocket(s);
    WSACleanup();
    return status;
}

static char *guid_text(const GUID *g, char buffer[64])
{
    sprintf(buffer, "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", (unsigned)g->Data1, g->Data2, g->Data3, g->Data4[0],
            g->Data4[1], g->Data4[2], g->Data4[3], g->Data4[4], g->Data4[5], g->Data4[6], g->Data4[7]);
    return buffer;
}

/* A handle is sent as #number where an id is expected. */
static char *handle_text(UINT64 handle, char buffer[64])
{
    sprintf(buffer, "#%llu", (unsigned long long)handle);
    return buffer;
}

API HNSCall(const WCHAR *method, const WCHAR *path, const WCHAR *request, WCHAR **response)
{
    char *m = to_utf8(method), *p = to_utf8(path);
    HRESULT status = call("HNSCall", m, request, p, NULL, response);
    free(m);
    free(p);
    return status;
}

#define CALLS(Kind)                                                                                                     \
    API HcnEnumerate##Kind##s(const WCHAR *query, WCHAR **found, WCHAR **error)                                         \
    {                                                                                                                   \
        if (error)                                                                                                      \
            *error = NULL;                                                                                              \
        return call("Enumerate " #Kind, "", query, "", NULL, found);                                                    \
    }                                                                                                                   \
    API HcnOpen##Kind(const GUID *id, UINT64 *handle, WCHAR **error)                                                    \
    {                                                                                                                   \
        char b[64];                                                                                                     \
        return call("Open " #Kind, guid_text(id, b), NULL, "", handle, error);                                          \
    }                                                                                                                   \
    API HcnModify##Kind(UINT64 handle, const WCHAR *settings, WCHAR **error)                                            \
    {                                                                                                                   \
        char b[64];                                                                                                     \
        return call("Modify " #Kind, handle_text(handle, b), settings, "", NULL, error);                                \
    }                                                                                                                   \
    API HcnQuery##Kind##Properties(UINT64 handle, const WCHAR *query, WCHAR **properties, WCHAR **error)                \
    {                                                                                                                   \
        char b[64];                                                                                                     \
        if (error)                                                                                                      \
            *error = NULL;                                                                                              \
        return call("Query " #Kind, handle_text(handle, b), query, "", NULL, properties);                               \
    }                                                                                                                   \
    API HcnDelete##Kind(const GUID *id, WCHAR **error)                                                                  \
    {                                                                                                                   \
        char b[64];                                                                                                     \
        return call("Delete " #Kind, guid_text(id, b), NULL, "", NULL, error);                                          \
    }                                                                                                                   \
    API HcnClose##Kind(UINT64 handle)                                                                                   \
    {                                                                                                                   \
        return 0;                                                                                                       \
    }

#define CREATE(Kind)                                                                                                    \
    API HcnCreate##Kind(const GUID *id, const WCHAR *settings, UINT64 *handle, WCHAR **error)                           \
    {                                                                                                                   \
        char b[64];                                                                                                     \
        return call("Create " #Kind, guid_text(id, b), settings, "", handle, error);                                    \
    }

CALLS(Network)
CALLS(Endpoint)
CALLS(Namespace)
CALLS(LoadBalancer)
CALLS(SdnRoute)
CREATE(Network)
CREATE(Namespace)
CREATE(LoadBalancer)
CREATE(SdnRoute)

API HcnCreateEndpoint(UINT64 network, const GUID *id, const WCHAR *settings, UINT64 *handle, WCHAR **error)
{
    char b[64], c[64];
    return call("Create Endpoint", guid_text(id, b), settings, handle_text(network, c), handle, error);
}
