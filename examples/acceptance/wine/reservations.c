/* Persistent reservations of ports (iphlpapi.h), which Wine 8 has not got. They are values
 * of RESERVED_KEY, "tcp 50000-50059"; nothing keeps a program from such a port. From those of
 * EXCLUDED_KEY, which are written likewise, bind does (unix_socket.c): ports that Windows' NAT
 * would have set aside.
 */
#include <stdio.h>
#include "redirect.h"
#include <ws2tcpip.h>

#define RESERVED_KEY L"SOFTWARE\\nodejoin-stand-in\\ReservedPorts"

#define EXCLUDED_KEY L"SOFTWARE\\nodejoin-stand-in\\ExcludedPorts"

static HKEY open_key(const WCHAR *key)
{
    HKEY k = NULL;
    RegCreateKeyExW(HKEY_LOCAL_MACHINE, key, 0, NULL, 0, KEY_READ | KEY_WRITE, NULL, &k, NULL);
    return k;
}

/* The name of a reservation; FALSE where there is none. start is in network order. */
static BOOL name_of(const char *protocol, USHORT start, USHORT count, char name[32])
{
    unsigned first = (USHORT)(start << 8 | start >> 8);
    if (!first || !count || first + count > 65536)
        return FALSE;
    sprintf(name, "%s %u-%u", protocol, first, first + count - 1);
    return TRUE;
}

static BOOL overlaps(HKEY k, const char *name)
{
    char protocol[8], other_protocol[8], other[32];
    unsigned first, last, other_first, other_last;
    sscanf(name, "%7s %u-%u", protocol, &first, &last);
    for (DWORD i = 0, size = sizeof other; !RegEnumValueA(k, i, other, &size, NULL, NULL, NULL, NULL); i++, size = sizeof other)
        if (sscanf(other, "%7s %u-%u", other_protocol, &other_first, &other_last) == 3 && !strcmp(protocol, other_protocol) &&
            first <= other_last && other_first <= last)
            return TRUE;
    return FALSE;
}

BOOL port_excluded(SOCKET s, const struct sockaddr *address)
{
    char name[32];
    int type = 0, size = sizeof type;
    USHORT port;
    if (address->sa_family == AF_INET)
        port = ((const struct sockaddr_in *)address)->sin_port;
    else if (address->sa_family == AF_INET6)
        port = ((const struct sockaddr_in6 *)address)->sin6_port;
    else
        return FALSE;
    if (getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&type, &size) || !name_of(type == SOCK_DGRAM ? "udp" : "tcp", port, 1, name))
        return FALSE;
    HKEY k = open_key(EXCLUDED_KEY);
    BOOL found = overlaps(k, name);
    RegCloseKey(k);
    return found;
}

static ULONG create(const char *protocol, USHORT start, USHORT count, PULONG64 token)
{
    char name[32];
    ULONG status = ERROR_SHARING_VIOLATION;
    if (!token || !name_of(protocol, start, count, name))
        return ERROR_INVALID_PARAMETER;
    HKEY k = open_key(RESERVED_KEY);
    if (!overlaps(k, name)) {
        *token = 1;
        status = RegSetValueExA(k, name, 0, REG_QWORD, (BYTE *)token, sizeof *token);
    }
    RegCloseKey(k);
    return status;
}

static ULONG lookup(const char *protocol, USHORT start, USHORT count, PULONG64 token)
{
    char name[32];
    DWORD size = sizeof *token;
    if (!token || !name_of(protocol, start, count, name))
        return ERROR_INVALID_PARAMETER;
    HKEY k = open_key(RESERVED_KEY);
    LONG status = RegQueryValueExA(k, name, NULL, NULL, (BYTE *)token, &size);
    RegCloseKey(k);
    return status ? ERROR_NOT_FOUND : NO_ERROR;
}

static ULONG delete(const char *protocol, USHORT start, USHORT count)
{
    char name[32];
    if (!name_of(protocol, start, count, name))
        return ERROR_INVALID_PARAMETER;
    HKEY k = open_key(RESERVED_KEY);
    LONG status = RegDeleteValueA(k, name);
    RegCloseKey(k);
    return status ? ERROR_NOT_FOUND : NO_ERROR;
}

static ULONG WINAPI create_tcp(USHORT start, USHORT count, PULONG64 token) { return create("tcp", start, count, token); }
static ULONG WINAPI create_udp(USHORT start, USHORT count, PULONG64 token) { return create("udp", start, count, token); }
static ULONG WINAPI lookup_tcp(USHORT start, USHORT count, PULONG64 token) { return lookup("tcp", start, count, token); }
static ULONG WINAPI lookup_udp(USHORT start, USHORT count, PULONG64 token) { return lookup("udp", start, count, token); }
static ULONG WINAPI delete_tcp(USHORT start, USHORT count) { return delete("tcp", start, count); }
static ULONG WINAPI delete_udp(USHORT start, USHORT count) { return delete("udp", start, count); }

const redirection reservation_redirections[] = {
    {"CreatePersistentTcpPortReservation", (FARPROC)create_tcp, NULL},
    {"CreatePersistentUdpPortReservation", (FARPROC)create_udp, NULL},
    {"LookupPersistentTcpPortReservation", (FARPROC)lookup_tcp, NULL},
    {"LookupPersistentUdpPortReservation", (FARPROC)lookup_udp, NULL},
    {"DeletePersistentTcpPortReservation", (FARPROC)delete_tcp, NULL},
    {"DeletePersistentUdpPortReservation", (FARPROC)delete_udp, NULL},
    {NULL, NULL, NULL},
};
