package request

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

const (
	wantURL    = "must be an absolute https URL, such as https://covers.example.com/1.jpg"
	wantPublic = "must have a public host name or address"
)

// checkCoverURL returns the error text for the URL of a cover, "" for a valid one. Readers' browsers load the URL
// unchanged, so the host must be public by the rules of browsers: they map full-width characters in names, and read
// numbers such as 2130706433, 0x7f.1 and 0177.0.0.1 as IPv4 addresses. Names are not resolved.
func checkCoverURL(s string) string {
	if wrong := between(s, 0, maxCoverURL); wrong != "" {
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
	if err != nil || u.Scheme != "https" || u.Opaque != "" || u.Hostname() == "" {
		return wantURL
	}
	if u.User != nil {
		return "must not contain a user name or password"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return wantURL
		}
	}
	return checkHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
}

// checkHost returns the error text for a host, "" for a valid one. Bracketed hosts are IPv6 literals.
func checkHost(host string, bracketed bool) string {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() || addr.Zone() != "" || !isPublic(addr) {
			return wantPublic
		}
		return ""
	}
	host, err := asciiHost(host)
	if err != nil {
		return wantURL
	}
	host = strings.TrimSuffix(host, ".") // the DNS root, without effect on the name
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return wantURL
		}
	}
	if endsInNumber(labels[len(labels)-1]) {
		// A browser reads this as an IPv4 address in any notation. Only the usual notation is accepted.
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is4() || !isPublic(addr) {
			return wantPublic
		}
		return ""
	}
	if len(host) > 253 {
		return wantURL
	}
	if len(labels) == 1 || isPrivateName(host) {
		return wantPublic
	}
	return ""
}

// asciiHost returns the host in lower-case ASCII, as a browser resolves it.
func asciiHost(host string) (string, error) {
	for i := range len(host) {
		if host[i] >= 0x80 {
			mapped, err := idna.Lookup.ToASCII(host)
			if err != nil {
				return "", fmt.Errorf("map host name: %w", err)
			}
			return mapped, nil
		}
	}
	return strings.ToLower(host), nil
}

// isLabel accepts letters, digits, hyphens, and underscores, which occur in the names of storage buckets.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// endsInNumber implements the "ends in a number checker" of the URL standard
// (https://url.spec.whatwg.org/#ends-in-a-number-checker) on the last label.
func endsInNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return isDigits(label)
}

// privateNames are the domains of private networks: RFC 6761, RFC 6762 (section 3
// and appendix G), RFC 8375, and ICANN's reservation of .internal.
var privateNames = []string{
	"localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa",
}

func isPrivateName(host string) bool {
	for _, name := range privateNames {
		if host == name || strings.HasSuffix(host, "."+name) {
			return true
		}
	}
	return false
}

// special are the IPv4 blocks that are not global unicast, and the IPv6 blocks
// inside 2000::/3 that are not, or that hold an IPv4 address (6to4, Teredo): the
// special-purpose registries of IANA (RFC 6890) and multicast.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// globalUnicast is the only IPv6 block for public addresses.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// isPublic reports whether an address can be reached from the Internet. An IPv6
// address with IPv4 inside (mapped, NAT64, …) is not in globalUnicast.
func isPublic(addr netip.Addr) bool {
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return false
	}
	for _, p := range special {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
