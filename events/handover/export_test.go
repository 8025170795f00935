package handover

import "time"

// SetAskTimeout changes the time in which the successor must answer the last question before the fence is lifted.
func (o *Origin) SetAskTimeout(timeout time.Duration) { o.askTimeout = timeout }
