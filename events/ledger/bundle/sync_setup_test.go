package bundle

// SettleEvery lets tests settle after so few files.
func (x *Export) SettleEvery(files int) { x.syncFiles = files }
