/* The rules of the firewall's stand-in (see netfw.c). They lie in the registry, in the
 * key and in about the form in which Windows keeps them.
 */
#include "netfw.h"

#define RULES_KEY L"SYSTEM\\CurrentControlSet\\Services\\SharedAccess\\Parameters\\FirewallPolicy\\FirewallRules"
#define VERSION_TOKEN L"v2.31|"
#define MAX_RULE 32768 /* characters of a stored rule */

static const member rule_members[PROPERTIES] = {
    {L"Name", 1, VT_BSTR, L"Name"},
    {L"Description", 2, VT_BSTR, L"Desc"},
    {L"ApplicationName", 3, VT_BSTR, L"App"},
    {L"serviceName", 4, VT_BSTR, L"Svc"},
    {L"Protocol", 5, VT_I4, L"Protocol"},
    {L"LocalPorts", 6, VT_BSTR, L"LPort"},
    {L"RemotePorts", 7, VT_BSTR, L"RPort"},
    {L"RemoteAddresses", 9, VT_BSTR, L"RA4"},
    {L"Direction", 11, VT_I4, L"Dir"},
    {L"Enabled", 14, VT_BOOL, L"Active"},
    {L"Grouping", 15, VT_BSTR, L"EmbedCtxt"},
    {L"Profiles", 16, VT_I4, L"Profile"},
    {L"Action", 18, VT_I4, L"Action"},
};

/* ---- the registry ---- */

LONG open_rules(REGSAM access, HKEY *key)
{
    return RegCreateKeyExW(HKEY_LOCAL_MACHINE, RULES_KEY, 0, NULL, 0, access, NULL, key, NULL);
}

static void append(WCHAR *text, const WCHAR *token, const WCHAR *value)
{
    wcscat(text, token);
    wcscat(text, L"=");
    wcscat(text, value);
    wcscat(text, L"|");
}

/* text_of is the stored form of a property; number holds it where it is one. */
static const WCHAR *text_of(object *rule, int p, WCHAR number[16])
{
    const VARIANT *v = &rule->values[p];
    if (rule_members[p].type == VT_BSTR)
        return V_BSTR(v) ? V_BSTR(v) : L"";
    if (p == ENABLED)
        return V_BOOL(v) ? L"TRUE" : L"FALSE";
    if (p == DIRECTION)
        return V_I4(v) == 2 ? L"Out" : L"In";
    if (p == ACTION)
        return V_I4(v) ? L"Allow" : L"Block";
    _snwprintf(number, 16, L"%ld", V_I4(v));
    return number;
}

static HRESULT store(object *rule)
{
    WCHAR *text = calloc(MAX_RULE, sizeof *text), number[16];
    size_t room = MAX_RULE - wcslen(VERSION_TOKEN) - 1;
    HKEY key;
    LONG err;

    if (!text)
        return E_OUTOFMEMORY;
    wcscpy(text, VERSION_TOKEN);
    for (int p = 0; p < PROPERTIES; p++) {
        const WCHAR *value = text_of(rule, p, number);
        size_t n = wcslen(value) + wcslen(rule_members[p].token) + 2;
        if (!*value)
            continue;
        if (n > room) {
            free(text);
            return E_INVALIDARG;
        }
        room -= n;
        append(text, rule_members[p].token, value);
    }
    if (!(err = open_rules(KEY_SET_VALUE, &key))) {
        err = RegSetValueExW(key, rule->id, 0, REG_SZ, (BYTE *)text, (wcslen(text) + 1) * sizeof *text);
        RegCloseKey(key);
    }
    free(text);
    return HRESULT_FROM_WIN32(err);
}

static void load(object *rule, WCHAR *text)
{
    WCHAR *end;
    for (WCHAR *token = text; (end = wcschr(token, L'|')); token = end + 1) {
        *end = 0;
        WCHAR *value = wcschr(token, L'=');
        if (!value)
            continue;
        *value++ = 0;
        for (int p = 0; p < PROPERTIES; p++) {
            VARIANT *v = &rule->values[p];
            if (wcscmp(token, rule_members[p].token))
                continue;
            if (rule_members[p].type == VT_BSTR) {
                SysFreeString(V_BSTR(v));
                V_BSTR(v) = SysAllocString(value);
            } else if (p == ENABLED)
                V_BOOL(v) = wcscmp(value, L"TRUE") ? VARIANT_FALSE : VARIANT_TRUE;
            else if (p == DIRECTION)
                V_I4(v) = wcscmp(value, L"Out") ? 1 : 2;
            else if (p == ACTION)
                V_I4(v) = wcscmp(value, L"Allow") ? 0 : 1;
            else
                V_I4(v) = wcstol(value, NULL, 10);
        }
    }
}

/* ---- a rule ---- */

/* good_ports: "*", "80", "80,443", "30000-32767" and the names that Windows knows. */
static BOOL good_ports(const WCHAR *text)
{
    static const WCHAR *const names[] = {L"*", L"RPC", L"RPC-EPMap", L"IPHTTPS", L"Ply2Disc", L"Teredo", L"mDNS"};
    for (;;) {
        size_t n = wcscspn(text, L",");
        BOOL known = FALSE;
        while (n && *text == L' ')
            text++, n--;
        for (int i = 0; i < COUNT(names); i++)
            known |= wcslen(names[i]) == n && !_wcsnicmp(names[i], text, n);
        if (!known) {
            WCHAR *end;
            unsigned long first = wcstoul(text, &end, 10), last = first;
            if (end == text || *text < L'0' || *text > L'9')
                return FALSE;
            if (*end == L'-')
                last = wcstoul(end + 1, &end, 10);
            if (end != text + n || first > last || last > 65535)
                return FALSE;
        }
        if (!text[n])
            return TRUE;
        text += n + 1;
    }
}

static HRESULT check(object *rule, int p, const VARIANT *v)
{
    const WCHAR *text = V_VT(v) == VT_BSTR && V_BSTR(v) ? V_BSTR(v) : L"";
    if (wcschr(text, L'|'))
        return E_INVALIDARG;
    switch (p) {
    case NAME:
        return *text && _wcsicmp(text, L"all") ? S_OK : E_INVALIDARG;
    case LOCAL_PORTS:
    case REMOTE_PORTS:
        if (V_I4(&rule->values[PROTOCOL]) != 6 && V_I4(&rule->values[PROTOCOL]) != 17)
            return E_INVALIDARG;
        return !*text || good_ports(text) ? S_OK : E_INVALIDARG;
    case PROTOCOL:
        return V_I4(v) >= 0 && V_I4(v) <= 256 ? S_OK : E_INVALIDARG;
    case DIRECTION:
        return V_I4(v) == 1 || V_I4(v) == 2 ? S_OK : E_INVALIDARG;
    case ACTION:
        return V_I4(v) == 0 || V_I4(v) == 1 ? S_OK : E_INVALIDARG;
    }
    return S_OK;
}

static HRESULT invoke_rule(object *rule, DISPID id, WORD flags, DISPPARAMS *args, VARIANT *result)
{
    VARIANT value;
    HRESULT hr;
    int p = 0;

    while (rule_members[p].id != id)
        p++;
    if (!(flags & DISPATCH_PROPERTYPUT))
        return args->cArgs ? DISP_E_BADPARAMCOUNT : VariantCopy(result, &rule->values[p]);
    if (args->cArgs != 1)
        return DISP_E_BADPARAMCOUNT;
    VariantInit(&value);
    if (FAILED(hr = VariantChangeType(&value, args->rgvarg, 0, rule_members[p].type)))
        return hr;
    if (SUCCEEDED(hr = check(rule, p, &value)))
        hr = VariantCopy(&rule->values[p], &value);
    VariantClear(&value);
    /* A rule of the firewall changes at once. */
    return SUCCEEDED(hr) && rule->id[0] ? store(rule) : hr;
}

const kind rule_kind = {rule_members, PROPERTIES, invoke_rule};

object *new_rule(void)
{
    object *rule = new_object(&rule_kind);
    if (!rule)
        return NULL;
    for (int p = 0; p < PROPERTIES; p++)
        V_VT(&rule->values[p]) = rule_members[p].type;
    V_I4(&rule->values[PROTOCOL]) = 256; /* NET_FW_IP_PROTOCOL_ANY */
    V_I4(&rule->values[DIRECTION]) = 1;
    V_I4(&rule->values[PROFILES]) = 0x7fffffff;
    V_I4(&rule->values[ACTION]) = 1;
    return rule;
}

HRESULT rule_at(DWORD index, object **out)
{
    WCHAR *text = calloc(MAX_RULE, sizeof *text);
    DWORD size = (MAX_RULE - 1) * sizeof *text, length;
    object *rule = new_rule();
    HKEY key;
    LONG err = ERROR_OUTOFMEMORY;

    if (text && rule && !(err = open_rules(KEY_QUERY_VALUE, &key))) {
        length = COUNT(rule->id);
        err = RegEnumValueW(key, index, rule->id, &length, NULL, NULL, (BYTE *)text, &size);
        RegCloseKey(key);
    }
    if (!err) {
        load(rule, text);
        *out = rule;
    } else if (rule)
        IDispatch_Release(&rule->iface);
    free(text);
    return err == ERROR_NO_MORE_ITEMS ? S_FALSE : HRESULT_FROM_WIN32(err);
}

/* ---- all rules ---- */

HRESULT find_rule(const WCHAR *name, object **out)
{
    for (DWORD i = 0;; i++) {
        HRESULT hr = rule_at(i, out);
        if (hr != S_OK)
            return hr == S_FALSE ? NOT_FOUND : hr;
        if (V_BSTR(&(*out)->values[NAME]) && !_wcsicmp(V_BSTR(&(*out)->values[NAME]), name))
            return S_OK;
        IDispatch_Release(&(*out)->iface);
    }
}

HRESULT add_rule(VARIANT *arg)
{
    object *rule, *copy;
    GUID guid;
    HRESULT hr;

    if (V_VT(arg) != VT_DISPATCH || !V_DISPATCH(arg))
        return E_INVALIDARG;
    rule = (object *)V_DISPATCH(arg);
    if (rule->kind != &rule_kind || !V_BSTR(&rule->values[NAME]))
        return E_INVALIDARG;
    if (!(copy = new_rule()))
        return E_OUTOFMEMORY;
    hr = CoCreateGuid(&guid);
    StringFromGUID2(&guid, copy->id, COUNT(copy->id));
    for (int p = 0; p < PROPERTIES && SUCCEEDED(hr); p++)
        hr = VariantCopy(&copy->values[p], &rule->values[p]);
    if (SUCCEEDED(hr))
        hr = store(copy);
    IDispatch_Release(&copy->iface);
    return hr;
}

HRESULT remove_rule(const WCHAR *name)
{
    object *rule;
    HKEY key;
    LONG err;
    HRESULT hr = find_rule(name, &rule);
    if (hr != S_OK)
        return hr == NOT_FOUND ? S_OK : hr;
    if (!(err = open_rules(KEY_SET_VALUE, &key))) {
        err = RegDeleteValueW(key, rule->id);
        RegCloseKey(key);
    }
    IDispatch_Release(&rule->iface);
    return HRESULT_FROM_WIN32(err);
}
