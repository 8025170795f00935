// Package webhooks sends the change feed to endpoints of partners, in the form of Standard Webhooks 1.0.0.
// docs/changes.md describes it to partners.
//
// # Outbox
//
// The log is the outbox. A webhook has a position in it, up to which every change of its partner has been attempted. A
// change whose attempt failed becomes a row with the time of its next attempt, and the position moves on. After twenty
// failures without a success the endpoint gets one request every five minutes, so the position hardly moves and few
// rows are added. The first success makes all of them due. A change is given up only while the endpoint accepts
// others, so an endpoint that was down gets all changes.
//
// # Workers
//
// Each replica has a worker. It leases a webhook: a holder and a deadline in its row, and no open transaction. Each
// outcome is saved with one statement that fails when the lease is lost, so a change of the webhook by its partner ends
// the visit by taking the lease away. A worker that is killed between the request and the save leads to a second
// request with the same webhook-id: delivery is at least once.
//
// Endpoints whose last attempt was slow have their own limit, so they do not delay the others.
//
// # Where requests go
//
// The address is checked when the connection is made, after the name is resolved: only public addresses, and those that
// the operator allows. The worker follows no redirects, uses no proxy of the environment, and shows no answer's body.
package webhooks
