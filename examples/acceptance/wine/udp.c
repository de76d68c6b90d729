/* Go since 1.23 turns off two reports of ICMP errors for each UDP socket and fails
 * where it cannot. Wine 8 does not know the second one, and never makes such reports.
 */
#include "redirect.h"

#ifndef SIO_UDP_NETRESET
#define SIO_UDP_NETRESET _WSAIOW(IOC_VENDOR, 15)
#endif

static int WINAPI control(SOCKET s, DWORD code, LPVOID in, DWORD in_size, LPVOID out, DWORD out_size, LPDWORD returned,
                          LPWSAOVERLAPPED overlapped, LPWSAOVERLAPPED_COMPLETION_ROUTINE done)
{
    if (code == SIO_UDP_NETRESET) {
        *returned = 0;
        return 0;
    }
    return WSAIoctl(s, code, in, in_size, out, out_size, returned, overlapped, done);
}

const redirection udp_redirections[] = {
    {"WSAIoctl", (FARPROC)control, NULL},
    {NULL, NULL, NULL},
};
