//! Functions that Kubernetes 1.36 adds to CEL's own (apiserver `pkg/cel/library`, and cel-go's extensions strings,
//! lists, sets and two-variable comprehensions).

pub(super) mod authz;
mod format;
mod lists;
mod net;
mod pairs;
mod quantity;
mod regex;
mod semver;
mod sets;
pub(super) mod time;
mod url;
mod values;

use cel::{DeclarationError, Env};

/// Adds all functions. Fails only if a function exists already.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    authz::extension(env)?;
    format::extension(env)?;
    lists::extension(env)?;
    net::extension(env)?;
    pairs::extension(env)?;
    quantity::extension(env)?;
    regex::extension(env)?;
    semver::extension(env)?;
    sets::extension(env)?;
    time::extension(env)?;
    url::extension(env)
}

/// Names of the functions and macros.
pub(super) const FUNCTIONS: &[&str] = &[
    "add",
    "allowed",
    "asApproximateFloat",
    "asInteger",
    "byte",
    "check",
    "cidr",
    "compareTo",
    "contains",
    "containsCIDR",
    "containsIP",
    "date",
    "datetime",
    "distinct",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "duration",
    "equivalent",
    "error",
    "errored",
    "existsOne",
    "family",
    "fieldSelector",
    "find",
    "findAll",
    "first",
    "flatten",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getEscapedPath",
    "getFullYear",
    "getHost",
    "getHostname",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getPort",
    "getQuery",
    "getScheme",
    "getSeconds",
    "group",
    "intersects",
    "ip",
    "isCIDR",
    "isCanonical",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "labelSelector",
    "labelValue",
    "last",
    "major",
    "masked",
    "max",
    "min",
    "minor",
    "name",
    "named",
    "namespace",
    "patch",
    "path",
    "prefixLength",
    "qualifiedName",
    "quantity",
    "quote",
    "range",
    "reason",
    "resource",
    "reverse",
    "semver",
    "serviceAccount",
    "sign",
    "slice",
    "sort",
    "sortBy",
    "sub",
    "subresource",
    "sum",
    "timestamp",
    "transformList",
    "transformMap",
    "transformMapEntry",
    "uri",
    "url",
    "uuid",
    "validate",
];

/// Namespaces of functions that have no target.
pub(super) const NAMESPACES: &[&str] = &["format", "ip", "lists", "sets", "strings"];

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use substrate::json::json;

    use crate::cel::{CelValue, Expression};

    /// Examples from upstream's documentation of its libraries, and from their tests.
    #[rstest]
    #[case("[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].isSorted()")]
    #[case("[1, 3].sum() == 4 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0")]
    #[case("[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && ['b', 'a'].max() == 'b'")]
    #[case("[1, 2, 2, 3].indexOf(2) == 1 && ['a', 'b', 'b', 'c'].lastIndexOf('b') == 2 && [1.0].indexOf(1.1) == -1")]
    #[case("[1, 2, 3, 4].slice(1, 3) == [2, 3] && [[1], [2]].flatten() == [1, 2] && [1, 1, 2].distinct() == [1, 2]")]
    #[case("[3, 1, 2].sort() == [1, 2, 3] && [1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]")]
    #[case("[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()")]
    #[case("self.list.sortBy(e, e.n)[0].n == 1")]
    #[case("'abc 123'.find('[0-9]+') == '123' && 'abc 123'.find('xyz') == ''")]
    #[case("'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']")]
    #[case("'123 abc 456'.findAll('xyz') == [] && '1 2'.findAll('[0-9]', 0) == []")]
    #[case("url('https://example.com:80/').getHost() == 'example.com:80' && url('/path').getHost() == ''")]
    #[case("url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'")]
    #[case("url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'")]
    #[case("url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}")]
    #[case("url('https://user:pass@example.com:80/path?query=val#fragment').getScheme() == 'https'")]
    #[case("isURL('https://user:pass@example.com:80/path?query=val#fragment') && isURL('/absolute-path')")]
    #[case("!isURL('https://a:b:c/') && !isURL('../relative-path') && !isURL('')")]
    #[case("url('https://example.com') == url('https://example.com') && url('/a') != url('/b')")]
    #[case("ip('127.0.0.1').family() == 4 && ip('::1').family() == 6 && isIP('::1') && !isIP('127.0.0.256')")]
    #[case("!isIP('::ffff:1.2.3.4') && !isIP('fe80::1%en0') && !isIP('010.0.0.1')")]
    #[case("ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')")]
    #[case("ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()")]
    #[case("ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()")]
    #[case(
        "ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()"
    )]
    #[case("ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback() && string(ip('10.0.0.1')) == '10.0.0.1'")]
    #[case("cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('192.168.0.0/24').containsIP('192.168.1.1')")]
    #[case(
        "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && !cidr('192.168.1.0/24').containsCIDR(cidr('192.168.2.0/24'))"
    )]
    #[case("cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('::1/128').prefixLength() == 128")]
    #[case("cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && isCIDR('::1/128') && !isCIDR('::1/129')")]
    #[case("string(cidr('192.168.0.0/24')) == '192.168.0.0/24' && !isCIDR('10.0.0.0/08')")]
    #[case("quantity('50M').compareTo(quantity('50Mi')) == -1 && quantity('200M').compareTo(quantity('0.2G')) == 0")]
    #[case("quantity('150Mi').isGreaterThan(quantity('100Mi')) && quantity('50M').isLessThan(quantity('100M'))")]
    #[case("quantity('50k').add(20).sub(quantity('100k')).sub(-50000) == quantity('20')")]
    #[case("quantity('50k').asInteger() == 50000 && !quantity('500m').isInteger() && quantity('-1').sign() == -1")]
    #[case("quantity('50k').sub(20000).asApproximateFloat() == 30000.0 && isQuantity('1.3Gi') && !isQuantity('200K')")]
    #[case("semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3")]
    #[case("semver('1.2.3').compareTo(semver('2.0.0')) == -1 && semver('1.0.0-alpha').isLessThan(semver('1.0.0'))")]
    #[case("semver('v1.0', true) == semver('1.0.0') && semver('01.01.01', true) == semver('1.1.1')")]
    #[case("isSemver('1.0.0') && !isSemver('v1.0') && isSemver('v1.0', true) && !isSemver('hello')")]
    #[case("!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('A').hasValue()")]
    #[case("!format.named('dns1123Subdomain').value().validate('a.b').hasValue() && !format.named('x').hasValue()")]
    #[case("format.uuid().validate('x').value() == ['does not match the UUID format']")]
    #[case("!format.byte().validate('aGVsbG8=').hasValue() && format.date().validate('2021-13-01').hasValue()")]
    #[case("!format.labelValue().validate('').hasValue() && format.qualifiedName().validate('a/b/c').hasValue()")]
    #[case("!format.dns1035LabelPrefix().validate('a-').hasValue() && format.dns1035Label().validate('1a').hasValue()")]
    #[case(
        "!format.datetime().validate('2021-01-01T00:00:00Z').hasValue() && !format.uri().validate('http://x').hasValue()"
    )]
    #[case("sets.contains([1, 2, 3], [2]) && !sets.contains([1], [1, 2]) && sets.equivalent([1, 1], [1])")]
    #[case("sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], []) && sets.contains([], [])")]
    #[case("[1, 2].all(i, v, i + 1 == v) && {'a': 1}.exists(k, v, k == 'a' && v == 1)")]
    #[case("[1, 2, 1].existsOne(i, v, v == 2) && ![1, 1].existsOne(i, v, v == 1)")]
    #[case("[1, 2].transformList(i, v, i * v) == [0, 2] && [1, 2, 3].transformList(i, v, v > 1, v) == [2, 3]")]
    #[case("{'b': 2, 'a': 1}.transformList(k, v, k) == ['a', 'b']")]
    #[case("{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && ['x'].transformMap(i, v, v) == {0: 'x'}")]
    #[case("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}")]
    #[case("{'a': 'x'}.transformMapEntry(k, v, {v: k}) == {'x': 'a'}")]
    #[case("[[1, 2], [3]].all(i, l, l.all(j, v, v == self.nested[i][j]))")]
    #[case("'%s=%d'.format(['a', 1]) == 'a=1' && strings.quote('a') == '\"a\"'")]
    #[case("self.?nope.orValue(3) == 3 && optional.of(1).optMap(x, x + 1).value() == 2 && self[?'list'].hasValue()")]
    fn upstream_examples_hold(#[case] rule: &str) {
        let value = json!({"list": [{"n": 2}, {"n": 1}], "nested": [[1, 2], [3]]});
        let found = Expression::compile(rule).unwrap().evaluate(&[("self", &value)]);
        assert_eq!(found, Ok(CelValue::Bool(true)));
    }

    #[rstest]
    #[case("[].min() == 1", "min called on empty list")]
    #[case("'a'.find('(') == ''", "Illegal regex")]
    #[case("url('../x') == url('/x')", "URL parse error during conversion from string")]
    #[case("ip('x').family() == 4", "IP Address \"x\" parse error during conversion from string")]
    #[case("ip('::ffff:1.2.3.4').family() == 4", "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed")]
    #[case("cidr('10.0.0.0').prefixLength() == 8", "network address parse error during conversion from string")]
    #[case("quantity('200K').sign() == 1", "quantities must match the regular expression")]
    #[case("quantity('500m').asInteger() == 1", "cannot convert value to integer")]
    #[case("semver('1').major() == 1", "No Major.Minor.Patch elements found")]
    #[case("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k}) == {}", "insert failed: key 1 already exists")]
    fn an_evaluation_error_says_why(#[case] rule: &str, #[case] wanted: &str) {
        let why = Expression::compile(rule).unwrap().evaluate(&[]).unwrap_err();
        assert!(why.contains(wanted), "{why}");
    }
}
