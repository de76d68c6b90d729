/* AF_UNIX sockets, which Wine 8 lacks, over TCP on the loopback address. The file
 * at the socket's path holds the port as text, so that other processes find it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "redirect.h"

#define UNIX_FAMILY 1
#define UNIX_PATH 108
#define LOOPBACK 0x0100007f /* 127.0.0.1 in network order */
#define SOCKETS 256

typedef struct {
    unsigned short family;
    char path[UNIX_PATH];
} unix_address;

static struct {
    SOCKET socket; /* 0 = free */
    unsigned short port;
    char path[UNIX_PATH];
} table[SOCKETS];

/* The other calls are those of ws2_32, which this library imports itself. */
static FARPROC original_addresses;

static int find(SOCKET s)
{
    for (int i = 0; i < SOCKETS; i++)
        if (table[i].socket == s)
            return i;
    return -1;
}

static struct sockaddr_in loopback(unsigned short port)
{
    struct sockaddr_in a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_port = port;
    a.sin_addr.s_addr = LOOPBACK;
    return a;
}

/* The path of a unix address, as UTF-16 into wide and as bytes into path. */
static void path_of(const struct sockaddr *name, int length, char path[UNIX_PATH + 1], WCHAR wide[300])
{
    int n = length - (int)sizeof(unsigned short);
    memset(path, 0, UNIX_PATH + 1);
    memcpy(path, ((const unix_address *)name)->path, n > UNIX_PATH ? UNIX_PATH : n);
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 300);
}

static SOCKET WINAPI open_socket(int family, int type, int protocol, LPWSAPROTOCOL_INFOW info, GROUP group, DWORD flags)
{
    SOCKET s = WSASocketW(family == UNIX_FAMILY ? AF_INET : family, type, protocol, info, group, flags);
    if (s == INVALID_SOCKET)
        return s;
    EnterCriticalSection(&redirect_lock);
    int i = find(s); /* the number of a closed socket, given out again */
    if (i >= 0)
        memset(&table[i], 0, sizeof table[i]);
    if (family == UNIX_FAMILY) {
        if (i < 0)
            i = find(0);
        if (i >= 0)
            table[i].socket = s;
    }
    LeaveCriticalSection(&redirect_lock);
    return s;
}

static int WINAPI bind_socket(SOCKET s, const struct sockaddr *name, int length)
{
    int i = find(s);
    if (i < 0 || name->sa_family != UNIX_FAMILY) {
        if (port_excluded(s, name)) {
            WSASetLastError(WSAEACCES);
            return -1;
        }
        return bind(s, name, length);
    }

    char path[UNIX_PATH + 1];
    WCHAR wide[300];
    path_of(name, length, path, wide);
    struct sockaddr_in a = loopback(0);
    int size = sizeof a;
    if (bind(s, (struct sockaddr *)&a, sizeof a) || getsockname(s, (struct sockaddr *)&a, &size))
        return -1;
    if (path[0]) {
        /* CREATE_ALWAYS: programs remove a stale socket by its file mode, which a plain file lacks. */
        HANDLE f = CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, CREATE_ALWAYS, 0, NULL);
        if (f == INVALID_HANDLE_VALUE) {
            WSASetLastError(WSAEINVAL);
            return -1;
        }
        char text[16];
        DWORD written;
        WriteFile(f, text, sprintf(text, "%u", a.sin_port), &written, NULL);
        CloseHandle(f);
    }
    EnterCriticalSection(&redirect_lock);
    table[i].port = a.sin_port;
    memcpy(table[i].path, path, UNIX_PATH);
    LeaveCriticalSection(&redirect_lock);
    return 0;
}

static int WINAPI connect_socket(SOCKET s, const struct sockaddr *name, int length)
{
    if (find(s) < 0 || name->sa_family != UNIX_FAMILY)
        return connect(s, name, length);

    char path[UNIX_PATH + 1], text[16] = {0};
    WCHAR wide[300];
    DWORD n = 0;
    path_of(name, length, path, wide);
    HANDLE f = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (f == INVALID_HANDLE_VALUE) {
        WSASetLastError(WSAECONNREFUSED);
        return -1;
    }
    ReadFile(f, text, sizeof text - 1, &n, NULL);
    CloseHandle(f);
    struct sockaddr_in a = loopback((unsigned short)atoi(text));
    return connect(s, (struct sockaddr *)&a, sizeof a);
}

static int WINAPI name_of_socket(SOCKET s, struct sockaddr *name, int *length)
{
    int i = find(s);
    if (i < 0)
        return getsockname(s, name, length);
    unix_address *u = (unix_address *)name;
    int path = (int)strlen(table[i].path), size = (int)sizeof u->family + path + 1;
    if (*length < size) {
        WSASetLastError(WSAEFAULT);
        return -1;
    }
    memset(name, 0, *length);
    u->family = UNIX_FAMILY;
    memcpy(u->path, table[i].path, path > UNIX_PATH ? UNIX_PATH : path);
    *length = size;
    return 0;
}

/* After AcceptEx: the addresses of a connection to one of our listeners. */
static void WINAPI accepted_addresses(PVOID buffer, DWORD received, DWORD local_size, DWORD remote_size,
                                      struct sockaddr **local, LPINT local_length,
                                      struct sockaddr **remote, LPINT remote_length)
{
    ((void(WINAPI *)(PVOID, DWORD, DWORD, DWORD, struct sockaddr **, LPINT, struct sockaddr **, LPINT))original_addresses)(
        buffer, received, local_size, remote_size, local, local_length, remote, remote_length);
    if (!*local || (*local)->sa_family != AF_INET || local_size < sizeof(unix_address))
        return;
    struct sockaddr_in *a = (struct sockaddr_in *)*local;
    if (a->sin_addr.s_addr != LOOPBACK)
        return;
    for (int i = 0; i < SOCKETS; i++)
        if (table[i].socket && table[i].port && table[i].port == a->sin_port) {
            unix_address *ours = (unix_address *)*local, *theirs = (unix_address *)*remote;
            ours->family = UNIX_FAMILY;
            memcpy(ours->path, table[i].path, UNIX_PATH);
            theirs->family = UNIX_FAMILY; /* unnamed */
            memset(theirs->path, 0, 16);
            return;
        }
}

const redirection unix_socket_redirections[] = {
    {"WSASocketW", (FARPROC)open_socket, NULL},
    {"bind", (FARPROC)bind_socket, NULL},
    {"connect", (FARPROC)connect_socket, NULL},
    {"getsockname", (FARPROC)name_of_socket, NULL},
    {"GetAcceptExSockaddrs", (FARPROC)accepted_addresses, &original_addresses},
    {NULL, NULL, NULL},
};
