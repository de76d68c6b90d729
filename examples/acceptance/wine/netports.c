/* Stand-in for what WMI tells of the ports that Windows gives out by itself, which Wine 8
 * has not got: classes MSFT_NetTCPSetting and MSFT_NetUDPSetting of root\StandardCimv2, as
 * far as their two properties. Every other namespace is Wine's own WMI. The ranges are
 * values of PORTS_KEY: first port << 16 | number of ports (netports.reg has those of a new
 * machine, netsh.c writes others).
 */
#define COBJMACROS
#include <windows.h>
#include <oleauto.h>
#include <stdlib.h>
#include <wchar.h>
#include <initguid.h>

#define PORTS_KEY L"SOFTWARE\\nodejoin-stand-in\\DynamicPorts"
#define INVALID_CLASS ((HRESULT)0x80041010) /* WBEM_E_INVALID_CLASS, wbemcli.h */
#define INSTANCES 3                         /* templates of settings; the first has no range */

DEFINE_GUID(class_locator, 0x76a64158, 0xcb41, 0x11d1, 0x8b, 0x02, 0x00, 0x60, 0x08, 0x06, 0xd9, 0xb6);

/* Each kind of object has one member that is asked for; numbers of wbemdisp.idl. */
typedef enum { LOCATOR, SERVICES, SET, INSTANCE, PROPERTIES, PROPERTY } kind;

static const struct {
    const WCHAR *name;
    DISPID id;
} members[] = {{L"ConnectServer", 1}, {L"ExecQuery", 5}, {L"_NewEnum", DISPID_NEWENUM}, {L"Properties_", 21}, {L"Item", 0}, {L"Value", 0}};

/* What an object is about. */
typedef struct {
    kind kind;
    const WCHAR *range; /* name of the value of PORTS_KEY */
    int instance;
    BOOL number; /* of ports; else the first one */
} subject;

typedef struct {
    IDispatch iface;
    LONG references;
    subject about;
} object;

typedef struct {
    IEnumVARIANT iface;
    LONG references;
    subject next;
} enumeration;

static HRESULT new_object(subject about, IDispatch **out);

static HRESULT give(subject about, VARIANT *result)
{
    V_VT(result) = VT_DISPATCH;
    return new_object(about, &V_DISPATCH(result));
}

/* ---- an enumeration of the instances of a class ---- */

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
    subject *next = &((enumeration *)iface)->next;
    ULONG n = 0;
    for (; n < want && next->instance < INSTANCES && SUCCEEDED(give(*next, &to[n])); n++)
        next->instance++;
    if (fetched)
        *fetched = n;
    return n == want ? S_OK : S_FALSE;
}

static HRESULT WINAPI enum_skip(IEnumVARIANT *iface, ULONG n) { return ((enumeration *)iface)->next.instance += n, S_OK; }
static HRESULT WINAPI enum_reset(IEnumVARIANT *iface) { return ((enumeration *)iface)->next.instance = 0, S_OK; }
static HRESULT WINAPI enum_clone(IEnumVARIANT *iface, IEnumVARIANT **out) { return E_NOTIMPL; }

static HRESULT new_enumeration(const WCHAR *range, VARIANT *result)
{
    static IEnumVARIANTVtbl vtbl = {enum_query, enum_addref, enum_release, enum_next, enum_skip, enum_reset, enum_clone};
    enumeration *e = calloc(1, sizeof *e);
    if (!e)
        return E_OUTOFMEMORY;
    e->iface.lpVtbl = &vtbl;
    e->references = 1;
    e->next = (subject){INSTANCE, range};
    V_VT(result) = VT_UNKNOWN;
    V_UNKNOWN(result) = (IUnknown *)&e->iface;
    return S_OK;
}

/* ---- what the members give ---- */

/* Wine's own locator, for the namespaces that it has. */
static HRESULT connect_wine(DISPPARAMS *args, VARIANT *result, EXCEPINFO *info, UINT *bad)
{
    HRESULT(WINAPI * get_class)(REFCLSID, REFIID, void **) = (void *)GetProcAddress(LoadLibraryA("wbemdisp.dll"), "DllGetClassObject");
    IClassFactory *factory;
    IDispatch *locator;
    HRESULT hr;

    if (!get_class)
        return REGDB_E_CLASSNOTREG;
    if (FAILED(hr = get_class(&class_locator, &IID_IClassFactory, (void **)&factory)))
        return hr;
    hr = IClassFactory_CreateInstance(factory, NULL, &IID_IDispatch, (void **)&locator);
    IClassFactory_Release(factory);
    if (FAILED(hr))
        return hr;
    hr = IDispatch_Invoke(locator, members[LOCATOR].id, &IID_NULL, LOCALE_USER_DEFAULT, DISPATCH_METHOD, args, result, info, bad);
    IDispatch_Release(locator);
    return hr;
}

static HRESULT exec_query(const WCHAR *text, VARIANT *result)
{
    if (!_wcsicmp(text, L"SELECT * FROM MSFT_NetTCPSetting"))
        return give((subject){SET, L"ipv4 tcp"}, result);
    if (!_wcsicmp(text, L"SELECT * FROM MSFT_NetUDPSetting"))
        return give((subject){SET, L"ipv4 udp"}, result);
    return INVALID_CLASS;
}

static HRESULT item(subject about, const WCHAR *name, VARIANT *result)
{
    about.kind = PROPERTY;
    about.number = !_wcsicmp(name, L"DynamicPortRangeNumberOfPorts");
    if (!about.number && _wcsicmp(name, L"DynamicPortRangeStartPort"))
        return HRESULT_FROM_WIN32(ERROR_NOT_FOUND);
    return give(about, result);
}

/* A uint16 comes as VT_I4, one without a value as VT_NULL. */
static HRESULT value(subject about, VARIANT *result)
{
    DWORD range = 0, size = sizeof range;
    if (about.instance == 0) {
        V_VT(result) = VT_NULL;
        return S_OK;
    }
    RegGetValueW(HKEY_LOCAL_MACHINE, PORTS_KEY, about.range, RRF_RT_REG_DWORD, NULL, &range, &size);
    V_VT(result) = VT_I4;
    V_I4(result) = about.number ? range & 0xffff : range >> 16;
    return S_OK;
}

/* The nth argument, as a text; "" where it is none. */
static const WCHAR *argument(DISPPARAMS *args, UINT n)
{
    VARIANT *v = args->cArgs > n ? &args->rgvarg[args->cArgs - 1 - n] : NULL;
    return v && V_VT(v) == VT_BSTR && V_BSTR(v) ? V_BSTR(v) : L"";
}

static HRESULT member(subject about, DISPPARAMS *args, VARIANT *result, EXCEPINFO *info, UINT *bad)
{
    switch (about.kind) {
    case LOCATOR:
        if (_wcsicmp(argument(args, 1), L"root\\StandardCimv2"))
            return connect_wine(args, result, info, bad);
        return give((subject){SERVICES}, result);
    case SERVICES:
        return exec_query(argument(args, 0), result);
    case SET:
        return new_enumeration(about.range, result);
    case INSTANCE:
        about.kind = PROPERTIES;
        return give(about, result);
    case PROPERTIES:
        return item(about, argument(args, 0), result);
    default:
        return value(about, result);
    }
}

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
    ULONG left = InterlockedDecrement(&((object *)iface)->references);
    if (!left)
        free(iface);
    return left;
}

static HRESULT WINAPI object_type_count(IDispatch *iface, UINT *n) { return *n = 0, S_OK; }
static HRESULT WINAPI object_type(IDispatch *iface, UINT i, LCID lcid, ITypeInfo **out) { return *out = NULL, DISP_E_BADINDEX; }

static HRESULT WINAPI object_ids(IDispatch *iface, REFIID iid, LPOLESTR *names, UINT n, LCID lcid, DISPID *ids)
{
    kind k = ((object *)iface)->about.kind;
    BOOL known = n == 1 && !_wcsicmp(members[k].name, names[0]);
    ids[0] = known ? members[k].id : DISPID_UNKNOWN;
    return known ? S_OK : DISP_E_UNKNOWNNAME;
}

static HRESULT WINAPI object_invoke(IDispatch *iface, DISPID id, REFIID iid, LCID lcid, WORD flags, DISPPARAMS *args, VARIANT *result, EXCEPINFO *info, UINT *bad)
{
    subject about = ((object *)iface)->about;
    if (id != members[about.kind].id)
        return DISP_E_MEMBERNOTFOUND;
    if (!result)
        return E_POINTER;
    VariantInit(result);
    HRESULT hr = member(about, args, result, info, bad);
    if (FAILED(hr)) {
        VariantInit(result);
        /* An error of the object, as opposed to one of the call, comes as an exception. */
        if (HRESULT_FACILITY(hr) != FACILITY_DISPATCH && info) {
            ZeroMemory(info, sizeof *info);
            info->scode = hr;
            hr = DISP_E_EXCEPTION;
        }
    }
    return hr;
}

static HRESULT new_object(subject about, IDispatch **out)
{
    static IDispatchVtbl vtbl = {object_query, object_addref, object_release, object_type_count, object_type, object_ids, object_invoke};
    object *o = calloc(1, sizeof *o);
    if (!o)
        return E_OUTOFMEMORY;
    o->iface.lpVtbl = &vtbl;
    o->references = 1;
    o->about = about;
    *out = &o->iface;
    return S_OK;
}

/* ---- the class; its factory is static, so nothing is counted ---- */

static HRESULT WINAPI factory_query(IClassFactory *iface, REFIID iid, void **out)
{
    *out = NULL;
    if (!IsEqualIID(iid, &IID_IUnknown) && !IsEqualIID(iid, &IID_IClassFactory))
        return E_NOINTERFACE;
    *out = iface;
    return S_OK;
}

static ULONG WINAPI factory_count(IClassFactory *iface) { return 1; }
static HRESULT WINAPI factory_lock(IClassFactory *iface, BOOL lock) { return S_OK; }

static HRESULT WINAPI factory_create(IClassFactory *iface, IUnknown *outer, REFIID iid, void **out)
{
    IDispatch *locator;
    HRESULT hr = outer ? CLASS_E_NOAGGREGATION : new_object((subject){LOCATOR}, &locator);
    *out = NULL;
    if (FAILED(hr))
        return hr;
    hr = IDispatch_QueryInterface(locator, iid, out);
    IDispatch_Release(locator);
    return hr;
}

__declspec(dllexport) HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID iid, void **out)
{
    static IClassFactoryVtbl vtbl = {factory_query, factory_count, factory_count, factory_create, factory_lock};
    static IClassFactory factory = {&vtbl};
    *out = NULL;
    return IsEqualCLSID(class, &class_locator) ? IClassFactory_QueryInterface(&factory, iid, out) : CLASS_E_CLASSNOTAVAILABLE;
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }
