/* SetNamedSecurityInfoW with PROTECTED_DACL_SECURITY_INFORMATION gives a file exactly
 * the access list that it is handed. Wine 8 ignores the flag and adds what the
 * parent folder hands on, so that a file could never be made private.
 */
#include "redirect.h"
#include <aclapi.h>

static DWORD WINAPI set_security(LPWSTR name, SE_OBJECT_TYPE type, SECURITY_INFORMATION info, PSID owner, PSID group, PACL dacl, PACL sacl)
{
    SECURITY_DESCRIPTOR descriptor;
    const SECURITY_INFORMATION kept = OWNER_SECURITY_INFORMATION | GROUP_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    if (type != SE_FILE_OBJECT || !dacl || !(info & PROTECTED_DACL_SECURITY_INFORMATION))
        return SetNamedSecurityInfoW(name, type, info, owner, group, dacl, sacl);
    if (InitializeSecurityDescriptor(&descriptor, SECURITY_DESCRIPTOR_REVISION) &&
        SetSecurityDescriptorControl(&descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED) &&
        SetSecurityDescriptorDacl(&descriptor, TRUE, dacl, FALSE) &&
        (!owner || SetSecurityDescriptorOwner(&descriptor, owner, FALSE)) &&
        (!group || SetSecurityDescriptorGroup(&descriptor, group, FALSE)) &&
        SetFileSecurityW(name, info & kept, &descriptor))
        return ERROR_SUCCESS;
    return GetLastError();
}

const redirection access_redirections[] = {
    {"SetNamedSecurityInfoW", (FARPROC)set_security, NULL},
    {NULL, NULL, NULL},
};
