package request

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

const (
	wantURL    = "must be an absolute https URL, such as https://covers.example.com/1.jpg"
	wantPublic = "must have a public host name or address"
)

// checkCoverURL returns the error text for the URL of a cover, "" for a valid one or none. Readers' browsers load the
// URL unchanged, so the host must be public by the rules of browsers: they map full-width characters in names, and read
// numbers such as 2130706433, 0x7f.1 and 0177.0.0.1 as IPv4 addresses. Names are not resolved.
func checkCoverURL(s string) string {
	if wrong := checkLength(s, 0, maxCoverURL); wrong != "" || s == "" {
		return wrong
	}
	// Browsers read a backslash as a slash and drop tabs and line breaks. None of these is valid in a URL, and each could
	// change the host.
	if strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`\<>"`, r)
	}) {
		return wantURL + `, without white space, control characters, \, <, > or "`
	}
	u, err := url.Parse(s)
	if escape, ok := errors.AsType[url.EscapeError](err); ok {
		return fmt.Sprintf("has %q, which is not percent-encoding: a percent sign in a URL is %%25", string(escape))
	}
	if err != nil || u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" {
		return wantURL
	}
	if u.User != nil {
		return "must not contain a user name or password"
	}
	return cmp.Or(CheckPort(u), CheckPublicHost(u))
}

// CheckPort returns the error text for the port of a URL, "" for a valid one or none.
func CheckPort(u *url.URL) string {
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "must have a port from 1 to 65,535, or none"
		}
	}
	return ""
}

// CheckPublicHost returns the error text for the host of a URL, "" for one that is public by the rules of
// checkCoverURL.
func CheckPublicHost(u *url.URL) string {
	return checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

// checkHost returns the error text for a host, "" for a valid one. Bracketed hosts are IPv6 literals.
func checkHost(host string, bracketed bool) string {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || addr.Zone() != "" || public.SafeAddr(addr) != nil {
			return wantPublic
		}
		return ""
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return wantURL
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".") // the final dot is the DNS root: the name is the same
	switch label := host[strings.LastIndexByte(host, '.')+1:]; {
	case !hostName.MatchString(host):
		return wantURL
	case numericLabel.MatchString(label):
		// A browser reads this as an IPv4 address in any notation. Only the usual notation is accepted.
		if addr, err := netip.ParseAddr(host); err != nil || !addr.Is4() || public.SafeAddr(addr) != nil {
			return wantPublic
		}
	case len(host) > 253:
		return wantURL
	case label == host || privateName.MatchString(host):
		return wantPublic
	}
	return ""
}

var (
	// hostName accepts letters, digits, hyphens, and underscores, which occur in the names of storage buckets.
	hostName = regexp.MustCompile(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)
	// numericLabel is the "ends in a number checker" of the URL standard, on the last label:
	// https://url.spec.whatwg.org/#ends-in-a-number-checker
	numericLabel = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
	// privateName accepts the domains of private networks: RFC 6761, RFC 6762 (section 3 and appendix G), RFC 8375, and
	// ICANN's reservation of .internal.
	privateName = regexp.MustCompile(
		`(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|home\.arpa)$`)
)

// public tells addresses that can be reached from the Internet, by IANA's special-purpose registries.
var public = ssrf.New()
