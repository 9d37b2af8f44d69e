// The spans of a ragged batch, for ops with a recurrent state: a span is (the index of a sequence's first
// token in the batch, its number of tokens, the row of the state that it continues, the row that its new
// state is written to).
//
// The sequences of a batch run at the same time: no two write the same row, and none reads a row that another
// one writes. The host's twins refuse others; here their results depend on which sequence is first.
//
// Users can write spans, so each is checked before it is used as an address.

/// The row read of a span whose sequence begins: its state is all zeros.
const NO_STATE: u32 = 0xffffffffu;

// Whether a span has tokens, lies within a batch of `tokens` tokens, and has rows within a state of `rows`.
fn is_valid_span(span: vec4<u32>, tokens: u32, rows: u32) -> bool {
    let in_batch = span.y > 0u && span.x < tokens && span.y <= tokens - span.x;
    return in_batch && span.w < rows && (span.z == NO_STATE || span.z < rows);
}
