/* bash.exe and pwsh.exe: default shells of an SSH server, as far as "-c LINE" goes. bash takes backslashes of the
 * line as escapes; PowerShell has a profile that prints a line first. Both hand their own standard handles on, and
 * neither reads its input.
 */
#include <windows.h>
#include <shellapi.h>
#include <stdio.h>

#define LONGEST 8192

static int run(WCHAR *line, const char *name)
{
    STARTUPINFOW info = {sizeof info};
    PROCESS_INFORMATION p;
    DWORD code = 1;
    info.dwFlags = STARTF_USESTDHANDLES;
    info.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    info.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    info.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &info, &p)) {
        char text[200];
        DWORD written;
        int n = sprintf(text, "%s: command not found (%lu)\r\n", name, GetLastError());
        WriteFile(info.hStdError, text, n, &written, NULL);
        return 127;
    }
    WaitForSingleObject(p.hProcess, INFINITE);
    GetExitCodeProcess(p.hProcess, &code);
    return code;
}

#ifndef PROFILE
/* The words of a POSIX shell, without expansions, as a command line of Windows. */
static void posix(const WCHAR *in, WCHAR *out)
{
    WCHAR quote = 0;
    BOOL program = TRUE;
    for (; *in; in++) {
        if (quote != '\'' && *in == '\\' && in[1])
            *out++ = *++in;
        else if (quote ? *in == quote : *in == '"' || *in == '\'') {
            quote = quote ? 0 : *in;
            *out++ = '"';
        } else {
            if (*in == ' ' && !quote)
                program = FALSE;
            *out++ = program && *in == '/' ? '\\' : *in;
        }
    }
    *out = 0;
}
#endif

int main(void)
{
    static WCHAR line[LONGEST];
    int argc;
    WCHAR **argv = CommandLineToArgvW(GetCommandLineW(), &argc);
    if (argc != 3 || lstrcmpiW(argv[1], L"-c") || lstrlenW(argv[2]) >= LONGEST)
        return 2;
#ifdef PROFILE
    static const char banner[] = "Loading personal and system profiles took 812ms.\r\n";
    DWORD written;
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), banner, sizeof banner - 1, &written, NULL);
    lstrcpyW(line, argv[2]);
    return run(line, "pwsh");
#else
    posix(argv[2], line);
    return run(line, "bash");
#endif
}
