// Package planted exists so that .ci/planted/commands/planted can break the rule against importing cmd.
package planted
