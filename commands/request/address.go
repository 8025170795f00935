package request

import "net/netip"

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
