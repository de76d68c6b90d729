/* Stand-in for the COM objects of the Windows Firewall, which Wine's hnetcfg only
 * stubs: HNetCfg.FwPolicy2 with its collection of rules, and HNetCfg.FWRule, reached
 * through IDispatch. Only the SSH server heeds the rules.
 *
 * What Windows refuses is refused: ports of a protocol that has none, ports that are
 * no ports, a bar in a text, a rule without a name. Two rules may have one name.
 */
#include "netfw.h"
#include <initguid.h>

DEFINE_GUID(class_policy, 0xe2b3c97f, 0x6ae1, 0x41ac, 0x81, 0x7a, 0xf6, 0xf9, 0x21, 0x66, 0xd7, 0xdd);
DEFINE_GUID(class_rule, 0x2c5bc43e, 0x3369, 0x4c33, 0xab, 0x0c, 0xbe, 0x94, 0x69, 0x67, 0x7a, 0xf4);

static const member policy_members[] = {{L"CurrentProfileTypes", 1, VT_I4, NULL}, {L"Rules", 7, VT_DISPATCH, NULL}};

enum { RULES_COUNT = 1, RULES_ADD = 2, RULES_REMOVE = 3, RULES_ITEM = 4 };

static const member rules_members[] = {
    {L"Count", RULES_COUNT, VT_I4, NULL},
    {L"Add", RULES_ADD, VT_EMPTY, NULL},
    {L"Remove", RULES_REMOVE, VT_EMPTY, NULL},
    {L"Item", RULES_ITEM, VT_DISPATCH, NULL},
    {L"_NewEnum", DISPID_NEWENUM, VT_UNKNOWN, NULL},
};

/* ---- an enumeration of all rules ---- */

typedef struct {
    IEnumVARIANT iface;
    LONG references;
    DWORD next;
} enumeration;

static HRESULT WINAPI enum_query(IEnumVARIANT *iface, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IEnumVARIANT))
        return E_NOINTERFACE;
    *out = iface;
    IEnumVARIANT_AddRef(iface);
    return S_OK;
}

static ULONG WINAPI enum_addref(IEnumVARIANT *iface) { return InterlockedIncrement(&((enumeration *)iface)->references); }

static ULONG WINAPI enum_release(IEnumVARIANT *iface)
{
    ULONG left = InterlockedDecrement(&((enumeration *)iface)->references);
    if (!left)
        free(iface);
    return left;
}

static HRESULT WINAPI enum_next(IEnumVARIANT *iface, ULONG want, VARIANT *to, ULONG *fetched)
{
    enumeration *e = (enumeration *)iface;
    HRESULT hr = S_OK;
    ULONG n = 0;
    for (object *rule; n < want && (hr = rule_at(e->next, &rule)) == S_OK; n++, e->next++) {
        V_VT(&to[n]) = VT_DISPATCH;
        V_DISPATCH(&to[n]) = &rule->iface;
    }
    if (fetched)
        *fetched = n;
    return hr;
}

static HRESULT WINAPI enum_skip(IEnumVARIANT *iface, ULONG n) { return ((enumeration *)iface)->next += n, S_OK; }
static HRESULT WINAPI enum_reset(IEnumVARIANT *iface) { return ((enumeration *)iface)->next = 0, S_OK; }
static HRESULT new_enumeration(DWORD next, IUnknown **out);
static HRESULT WINAPI enum_clone(IEnumVARIANT *iface, IEnumVARIANT **out) { return new_enumeration(((enumeration *)iface)->next, (IUnknown **)out); }

static HRESULT new_enumeration(DWORD next, IUnknown **out)
{
    static IEnumVARIANTVtbl vtbl = {enum_query, enum_addref, enum_release, enum_next, enum_skip, enum_reset, enum_clone};
    enumeration *e = calloc(1, sizeof *e);
    if (!e)
        return E_OUTOFMEMORY;
    e->iface.lpVtbl = &vtbl;
    e->references = 1;
    e->next = next;
    *out = (IUnknown *)&e->iface;
    return S_OK;
}

/* ---- the collection and the policy ---- */

static HRESULT count(VARIANT *result)
{
    HKEY key;
    DWORD n = 0;
    LONG err = open_rules(KEY_QUERY_VALUE, &key);
    if (!err) {
        err = RegQueryInfoKeyW(key, NULL, NULL, NULL, NULL, NULL, NULL, &n, NULL, NULL, NULL, NULL);
        RegCloseKey(key);
    }
    V_VT(result) = VT_I4;
    V_I4(result) = n;
    return HRESULT_FROM_WIN32(err);
}

static HRESULT invoke_rules(object *rules, DISPID id, WORD flags, DISPPARAMS *args, VARIANT *result)
{
    VARIANT *arg = args->rgvarg;
    const WCHAR *name;
    object *rule;
    HRESULT hr;

    if (args->cArgs != (id == RULES_COUNT || id == DISPID_NEWENUM ? 0 : 1))
        return DISP_E_BADPARAMCOUNT;
    switch (id) {
    case RULES_COUNT:
        return count(result);
    case DISPID_NEWENUM:
        V_VT(result) = VT_UNKNOWN;
        return new_enumeration(0, &V_UNKNOWN(result));
    case RULES_ADD:
        return add_rule(arg);
    }
    if (V_VT(arg) != VT_BSTR)
        return DISP_E_TYPEMISMATCH;
    name = V_BSTR(arg) ? V_BSTR(arg) : L"";
    if (id == RULES_REMOVE)
        return remove_rule(name);
    if (SUCCEEDED(hr = find_rule(name, &rule))) {
        V_VT(result) = VT_DISPATCH;
        V_DISPATCH(result) = &rule->iface;
    }
    return hr;
}

static const kind rules_kind = {rules_members, COUNT(rules_members), invoke_rules};

static HRESULT invoke_policy(object *policy, DISPID id, WORD flags, DISPPARAMS *args, VARIANT *result)
{
    if (id == 1) {
        V_VT(result) = VT_I4;
        /* With a virtual switch the network is one that Windows does not know: NET_FW_PROFILE2_PRIVATE, _PUBLIC. */
        V_I4(result) = GetFileAttributesW(L"C:\\windows\\switch-stand-in") == INVALID_FILE_ATTRIBUTES ? 2 : 4;
        return S_OK;
    }
    object *rules = new_object(&rules_kind);
    if (!rules)
        return E_OUTOFMEMORY;
    V_VT(result) = VT_DISPATCH;
    V_DISPATCH(result) = &rules->iface;
    return S_OK;
}

static const kind policy_kind = {policy_members, COUNT(policy_members), invoke_policy};

/* ---- IDispatch of them all ---- */

static HRESULT WINAPI object_query(IDispatch *iface, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IDispatch))
        return E_NOINTERFACE;
    *out = iface;
    IDispatch_AddRef(iface);
    return S_OK;
}

static ULONG WINAPI object_addref(IDispatch *iface) { return InterlockedIncrement(&((object *)iface)->references); }

static ULONG WINAPI object_release(IDispatch *iface)
{
    object *o = (object *)iface;
    ULONG left = InterlockedDecrement(&o->references);
    if (!left) {
        for (int p = 0; p < PROPERTIES; p++)
            VariantClear(&o->values[p]);
        free(o);
    }
    return left;
}

static HRESULT WINAPI object_type_count(IDispatch *iface, UINT *n) { return *n = 0, S_OK; }
static HRESULT WINAPI object_type(IDispatch *iface, UINT i, LCID lcid, ITypeInfo **out) { return *out = NULL, DISP_E_BADINDEX; }

static HRESULT WINAPI object_ids(IDispatch *iface, REFIID iid, LPOLESTR *names, UINT n, LCID lcid, DISPID *ids)
{
    const kind *k = ((object *)iface)->kind;
    for (UINT i = 0; i < n; i++)
        ids[i] = DISPID_UNKNOWN;
    for (int m = 0; n && m < k->count; m++)
        if (!_wcsicmp(k->members[m].name, names[0]))
            ids[0] = k->members[m].id;
    return n == 1 && ids[0] != DISPID_UNKNOWN ? S_OK : DISP_E_UNKNOWNNAME;
}

static HRESULT WINAPI object_invoke(IDispatch *iface, DISPID id, REFIID iid, LCID lcid, WORD flags, DISPPARAMS *args, VARIANT *result, EXCEPINFO *info, UINT *bad)
{
    const kind *k = ((object *)iface)->kind;
    VARIANT unused;
    HRESULT hr = DISP_E_MEMBERNOTFOUND;

    VariantInit(&unused);
    if (result)
        VariantInit(result);
    for (int m = 0; m < k->count; m++)
        if (k->members[m].id == id)
            hr = k->invoke((object *)iface, id, flags, args, result ? result : &unused);
    VariantClear(&unused);
    /* An error of the object, as opposed to one of the call, comes as an exception. */
    if (FAILED(hr) && HRESULT_FACILITY(hr) != FACILITY_DISPATCH && info) {
        memset(info, 0, sizeof *info);
        info->scode = hr;
        hr = DISP_E_EXCEPTION;
    }
    return hr;
}

object *new_object(const kind *k)
{
    static IDispatchVtbl vtbl = {object_query, object_addref, object_release, object_type_count, object_type, object_ids, object_invoke};
    object *o = calloc(1, sizeof *o);
    if (o) {
        o->iface.lpVtbl = &vtbl;
        o->references = 1;
        o->kind = k;
    }
    return o;
}

/* ---- the classes ---- */

static HRESULT WINAPI factory_query(IClassFactory *iface, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IClassFactory))
        return E_NOINTERFACE;
    *out = iface;
    return S_OK;
}

/* The factories are static and the DLL stays, so nothing is counted. */
static ULONG WINAPI factory_count(IClassFactory *iface) { return 1; }
static HRESULT WINAPI factory_lock(IClassFactory *iface, BOOL lock) { return S_OK; }

static HRESULT create(object *o, IUnknown *outer, REFIID iid, void **out)
{
    HRESULT hr = outer ? CLASS_E_NOAGGREGATION : E_OUTOFMEMORY;
    *out = NULL;
    if (!o)
        return hr;
    if (!outer)
        hr = IDispatch_QueryInterface(&o->iface, iid, out);
    IDispatch_Release(&o->iface);
    return hr;
}

static HRESULT WINAPI create_policy(IClassFactory *iface, IUnknown *outer, REFIID iid, void **out) { return create(new_object(&policy_kind), outer, iid, out); }
static HRESULT WINAPI create_rule(IClassFactory *iface, IUnknown *outer, REFIID iid, void **out) { return create(new_rule(), outer, iid, out); }

__declspec(dllexport) HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID iid, void **out)
{
    static IClassFactoryVtbl policy_vtbl = {factory_query, factory_count, factory_count, create_policy, factory_lock};
    static IClassFactoryVtbl rule_vtbl = {factory_query, factory_count, factory_count, create_rule, factory_lock};
    static IClassFactory policy = {&policy_vtbl}, rule = {&rule_vtbl};

    *out = NULL;
    if (IsEqualCLSID(class, &class_policy))
        return IClassFactory_QueryInterface(&policy, iid, out);
    if (IsEqualCLSID(class, &class_rule))
        return IClassFactory_QueryInterface(&rule, iid, out);
    return CLASS_E_CLASSNOTAVAILABLE;
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
