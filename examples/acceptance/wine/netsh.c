/* Stand-in for netsh.exe, as far as the ports that Windows gives out by itself:
 *
 *   netsh interface ipv4|ipv6 set dynamicport tcp|udp start=N num=N
 *
 * They are kept as netports.c reads them. Everything else succeeds and does nothing, as
 * with Wine's own netsh.
 */
#include <windows.h>
#include <stdio.h>
#include <string.h>

#define PORTS_KEY "SOFTWARE\\nodejoin-stand-in\\DynamicPorts"

int main(int argc, char **argv)
{
    unsigned first, count;
    char name[16];
    if (argc != 8 || strcmp(argv[1], "interface") || strcmp(argv[3], "set") || strcmp(argv[4], "dynamicport"))
        return 0;
    if (strcmp(argv[2], "ipv4") && strcmp(argv[2], "ipv6"))
        return 1;
    if (strcmp(argv[5], "tcp") && strcmp(argv[5], "udp"))
        return 1;
    /* What Windows refuses: too few, and ports that are no ports. */
    if (sscanf(argv[6], "start=%u", &first) != 1 || sscanf(argv[7], "num=%u", &count) != 1 || first < 1025 || count < 255 || first + count > 65536)
        return 1;
    DWORD range = first << 16 | count;
    snprintf(name, sizeof name, "%s %s", argv[2], argv[5]);
    return RegSetKeyValueA(HKEY_LOCAL_MACHINE, PORTS_KEY, name, REG_DWORD, &range, sizeof range) ? 1 : 0;
}
