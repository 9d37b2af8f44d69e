// What `attention` computes, by one invocation for each head of a token, one position after the other. No
// workgroup memory and no barriers, which are what costs on a software adapter.
import package::attention_io::{p, index, load_query, row_of, scored, seen, store_out, LOWEST};
import package::cache::{head_at, value};
import package::query::{query, MAX_QUADS};
import constants::WG;

const TILE = vec2<u32>(WG, 1u);

var<private> acc: array<vec4<f32>, MAX_QUADS>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let head = wid.x * WG + lid;
    let t = wid.y;
    if head >= p.heads || t >= p.tokens {
        return;
    }
    let quads = min((p.head_dim + 3u) / 4u, MAX_QUADS);
    let base = (t * p.heads + head) * p.head_dim;
    let kv_head = head / (p.heads / p.kv_heads);
    for (var i = 0u; i < quads; i++) {
        query[i] = load_query(base, i);
        acc[i] = vec4(0.0);
    }
    let at = index[t];
    let range = seen(at);
    var greatest = LOWEST;
    var total = 0.0;
    let page_size = max(p.page_size, 1u);
    var position = range.x;
    while position < range.y {
        // Heads of one page follow one another.
        var row = row_of(at.x, position, kv_head);
        let end = min(range.y, position + page_size - position % page_size);
        for (; position < end; position++) {
            let place = head_at(row, quads);
            let own = scored(place, quads);
            if own > greatest {
                let fade = exp(greatest - own);
                greatest = own;
                total *= fade;
                for (var i = 0u; i < quads; i++) {
                    acc[i] *= fade;
                }
            }
            let weight = exp(own - greatest);
            total += weight;
            for (var i = 0u; i < quads; i++) {
                acc[i] += weight * value(place, quads, i);
            }
            row += p.kv_heads;
        }
    }
    for (var i = 0u; i < quads; i++) {
        store_out(base, i, acc[i] / total);
    }
}
