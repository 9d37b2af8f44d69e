@group(0) @binding(0) var<storage, read_write> x: array<i32>;

fn classify(a: i32) -> i32 {
    switch a {
        case 0, 1: {
            return 3;
        }
        case -2147483648: {
            return 4;
        }
        default: {
            if a > 100 {
                break;
            }
            return a;
        }
    }
    return 5;
}

fn nested(limit: i32) -> i32 {
    var sum = 0;
    for (var i = 0; i < limit; i++) {
        if i % 3 == 0 {
            continue;
        }
        for (var j = 0; ; j++) {
            if j > i {
                break;
            }
            switch j & 3 {
                case 1: {
                    continue;
                }
                case 2, default: {
                    sum += j;
                }
            }
        }
        while sum > 1000 {
            sum /= 2;
        }
    }
    return sum;
}

fn continuing_sees_the_body() -> i32 {
    var a = 0;
    loop {
        if a > 50 {
            a += 7;
            continue;
        }
        let is_small = a < 8;
        let next = classify(a);
        continuing {
            a += select(next, 1, is_small);
            let far = a > 90;
            break if far || a == x[0];
        }
    }
    loop {
        let is_last = a < 3;
        a -= 1;
        continuing {
            break if is_last;
        }
    }
    loop {
        a += 1;
        if a > 5 {
            break;
        }
    }
    return a;
}

fn endless(a: u32) -> u32 {
    switch a {
        case 3u: {
            loop {}
        }
        default: {}
    }
    return a + 1u;
}

@compute @workgroup_size(1)
fn main() {
    x[1] = classify(x[0]) + nested(x[2]) + continuing_sees_the_body();
    {
        let shadow = x[1];
        x[3] = shadow;
    }
    if x[4] > 0 && x[5] > 0 || x[6] < 0 {
        x[7] = 1;
    } else if x[8] == 0 {
        return;
    }
    x[9] = i32(endless(u32(x[0])));
}
