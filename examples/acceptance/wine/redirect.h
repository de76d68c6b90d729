/* Redirection of Windows calls inside Go programs under Wine 8.
 *
 * A Go program looks up every Windows function with GetProcAddress. The stand-in
 * for bcryptprimitives.dll is the first library that the Go runtime loads, so it
 * can replace the program's GetProcAddress by one that hands out repaired versions
 * of the few calls that Wine 8 answers wrongly. Programs that import functions
 * directly are left alone.
 */
#ifndef NODEJOIN_REDIRECT_H
#define NODEJOIN_REDIRECT_H

#include <winsock2.h>
#include <mswsock.h>
#include <windows.h>

/* A call to replace: its name, ours, and where the original is kept. */
typedef struct {
    const char *name;
    FARPROC replacement;
    FARPROC *original; /* NULL where ours does not need it, and stands in for one that is absent, too */
} redirection;

/* Tables end with a NULL name. Each file of repairs has one. */
extern const redirection symlink_redirections[];
extern const redirection access_redirections[];
extern const redirection udp_redirections[];
extern const redirection file_information_redirections[];
extern const redirection unix_socket_redirections[];
extern const redirection session_redirections[];
extern const redirection service_config_redirections[];
extern const redirection service_status_redirections[];
extern const redirection shutdown_redirections[];
extern const redirection reservation_redirections[];
extern const redirection adapter_redirections[];
extern const redirection route_redirections[];
extern const redirection slash_redirections[];

/* Whether a socket may not be bound to an address because its port is set aside (reservations.c). */
BOOL port_excluded(SOCKET s, const struct sockaddr *address);

/* The name that an adapter has on a virtual switch; NULL while it has none (adapters.c). */
WCHAR *adapter_on_switch(const WCHAR *adapter);

/* Guards the tables that unix_socket.c and service_config.c keep. */
extern CRITICAL_SECTION redirect_lock;

/* Redirects the program's GetProcAddress; called once, when the DLL is attached. */
void redirect_install(void);

#endif
