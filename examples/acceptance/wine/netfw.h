/* Shared by the two halves of netfw.dll: objects that answer through IDispatch. */
#define COBJMACROS
#include <windows.h>
#include <oleauto.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define NOT_FOUND HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND)
#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

/* Members, with the identifiers of netfw.idl. A rule's are its properties. */
typedef struct {
    const WCHAR *name;
    DISPID id;
    VARTYPE type;
    const WCHAR *token; /* of a stored rule; NULL = not stored */
} member;

enum { NAME, DESCRIPTION, APPLICATION, SERVICE, PROTOCOL, LOCAL_PORTS, REMOTE_PORTS, REMOTE_ADDRESSES, DIRECTION, ENABLED, GROUPING, PROFILES, ACTION, PROPERTIES };

typedef struct object object;

/* kind is what tells objects apart. */
typedef struct {
    const member *members;
    int count;
    HRESULT (*invoke)(object *, DISPID, WORD flags, DISPPARAMS *, VARIANT *result);
} kind;

struct object {
    IDispatch iface;
    LONG references;
    const kind *kind;
    WCHAR id[40]; /* of a rule: its name in the registry; "" = not added yet */
    VARIANT values[PROPERTIES];
};

/* netfw.c */
object *new_object(const kind *k);

/* netfw_rules.c */
extern const kind rule_kind;
object *new_rule(void);
LONG open_rules(REGSAM access, HKEY *key);
HRESULT rule_at(DWORD index, object **out);        /* S_FALSE past the last */
HRESULT find_rule(const WCHAR *name, object **out); /* the first of that name, or NOT_FOUND */
HRESULT add_rule(VARIANT *arg);
HRESULT remove_rule(const WCHAR *name); /* one of that name; none is not an error */
