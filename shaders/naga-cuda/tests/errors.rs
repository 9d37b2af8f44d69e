//! What has no translation is named, with its place; nothing panics.

mod support;

use naga_cuda::{Error, Location, Options, Parameter, Source};
use support::nvrtc::Nvrtc;
use support::{POLICIES, options, parse};

/// Translates a shader and returns the error.
fn error(wgsl: &str) -> Error {
    let (module, info) = parse(wgsl).unwrap_or_else(|error| panic!("{error}"));
    let options = Options {
        source: Some(Source {
            name: "test.wgsl",
            text: wgsl,
        }),
        ..Options::default()
    };
    naga_cuda::translate(&module, &info, &options).expect_err("this has no translation")
}

#[track_caller]
fn assert_unsupported(wgsl: &str, feature: &str, line: u32) {
    match error(wgsl) {
        Error::Unsupported {
            feature: named,
            location: Some(location),
        } => {
            assert!(named.contains(feature), "{named}");
            assert_eq!(
                (location.name.as_str(), location.line),
                ("test.wgsl", line),
                "{named}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn textures_are_named_at_their_declaration_or_use() {
    assert_unsupported(
        "@group(0) @binding(0) var t: texture_2d<f32>;
         @group(0) @binding(1) var<storage, read_write> x: vec4<f32>;
         @compute @workgroup_size(1)
         fn main() {
             x = textureLoad(t, vec2(0, 0), 0);
         }",
        "a texture",
        1,
    );
}

#[test]
fn wide_types_are_named_at_their_use() {
    assert_unsupported(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
         @compute @workgroup_size(1)
         fn main() {
             let wide = u64(x[0]) *
                 u64(x[1]);
             x[0] = u32(wide >> 32u);
         }",
        "the type u64",
        4,
    );
    // Nor are they hidden in what looks like the conversion of bytes.
    assert_unsupported(
        "@group(0) @binding(0) var<storage, read_write> x: array<vec4<f32>>;
         @group(0) @binding(1) var<storage, read_write> y: array<u32>;
         @compute @workgroup_size(1)
         fn main() {
             x[0] = vec4<f32>(vec4<i64>(vec4(y[0]) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
         }",
        "the type i64",
        5,
    );
}

#[test]
fn small_cooperative_matrices_are_named() {
    assert_unsupported(
        "enable f16;
         enable wgpu_cooperative_matrix;
         @group(0) @binding(0) var<storage, read_write> x: array<f32>;
         @compute @workgroup_size(32)
         fn main() {
             var sum = coopLoad<coop_mat8x8<f32, C>>(&x[0], 8u);
             coopStore(sum, &x[64], 8u);
         }",
        "a cooperative matrix of 8x8",
        6,
    );
}

#[test]
fn atomic_operations_on_floats_are_named() {
    assert_unsupported(
        "@group(0) @binding(0) var<storage, read_write> x: atomic<f32>;
         @compute @workgroup_size(1)
         fn main() {
             let old = atomicExchange(&x, 1.0);
         }",
        "atomicExch",
        4,
    );
}

#[test]
fn messages_say_where() {
    let location = Location {
        name: "a.wgsl".to_owned(),
        line: 3,
        column: 7,
    };
    let error = Error::Unsupported {
        feature: "a texture".to_owned(),
        location: Some(location),
    };
    assert_eq!(
        error.to_string(),
        "a.wgsl:3:7: a texture cannot be translated to CUDA"
    );
}

#[test]
fn overrides_and_entry_points_are_checked() {
    let wgsl = "override n: u32; @compute @workgroup_size(1) fn main() { _ = n; }";
    let missing = error(wgsl);
    assert!(matches!(missing, Error::Override(_)), "{missing}");
    assert!(missing.to_string().contains("'n'"), "{missing}");
    let wgsl = "override n: u32 = 0; @compute @workgroup_size(n) fn main() {}";
    assert!(matches!(error(wgsl), Error::Override(_)));
    let vertex = "@vertex fn main() -> @builtin(position) vec4<f32> { return vec4(0.0); }";
    assert_eq!(error(vertex), Error::NoEntryPoint { name: None });

    let (module, info) = parse("@compute @workgroup_size(1) fn main() {}").unwrap();
    let options = Options {
        entry_point: Some("other"),
        ..Options::default()
    };
    let result = naga_cuda::translate(&module, &info, &options);
    assert_eq!(
        result,
        Err(Error::NoEntryPoint {
            name: Some("other".to_owned())
        })
    );
}

#[test]
fn only_what_the_entry_point_reaches_is_translated() {
    let wgsl = "
        @group(0) @binding(0) var t: texture_2d<f32>;
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @group(0) @binding(1) var<storage> unused: array<f32>;
        fn sample() -> f32 { return textureLoad(t, vec2(0, 0), 0).x; }
        @fragment fn draw() -> @location(0) vec4<f32> { return vec4(sample()); }
        @compute @workgroup_size(1) fn first() { x[0] = 1.0; }
        @compute @workgroup_size(2) fn second() { x[0] = 2.0; }";
    let (module, info) = parse(wgsl).unwrap();
    for (name, size) in [("first", 1), ("second", 2)] {
        let options = Options {
            entry_point: Some(name),
            ..Options::default()
        };
        let translation = naga_cuda::translate(&module, &info, &options).unwrap();
        assert_eq!(translation.entry_point, format!("main_{name}"));
        assert_eq!(translation.workgroup_size, [size, 1, 1]);
        // One pointer, and its length for the bounds check.
        assert_eq!(translation.parameters.len(), 2);
        assert!(!translation.source.contains("unused"));
    }
}

#[test]
fn bindings_state_the_size_of_their_types() {
    let wgsl = "
        struct Params { len: u32, at: vec3<u32> }
        struct List { first: u32, rest: array<vec4<f32>> }
        @group(0) @binding(0) var<uniform> p: Params;
        @group(0) @binding(1) var<storage> pairs: array<vec2<f32>>;
        @group(0) @binding(2) var<storage> list: List;
        @group(0) @binding(3) var<storage, read_write> rows: array<vec3<f32>, 5>;
        @compute @workgroup_size(1) fn main() {
            rows[p.len].x = pairs[p.len].x + list.rest[p.len].x;
        }";
    let (module, info) = parse(wgsl).unwrap();
    let translation = naga_cuda::translate(&module, &info, &Options::default()).unwrap();
    let min_bytes = |parameter: &Parameter| match *parameter {
        Parameter::Pointer { min_bytes, .. } => Some(min_bytes),
        Parameter::Bytes { .. } => None,
    };
    let sizes: Vec<u32> = translation
        .parameters
        .iter()
        .filter_map(min_bytes)
        .collect();
    assert_eq!(sizes, [32, 8, 32, 80]);
}

/// A source that is not the module's gives other lines, or none.
#[test]
fn other_sources_do_no_harm() {
    let wgsl = "@group(0) @binding(0) var<storage, read_write> x: array<u64>;
        @compute @workgroup_size(1) fn main() { x[0] = 1lu; }";
    let (module, info) = parse(wgsl).unwrap();
    for text in ["", "é", "\n\n\n"] {
        let options = Options {
            source: Some(Source {
                name: "a\"b\\c\n",
                text,
            }),
            ..Options::default()
        };
        assert!(matches!(
            naga_cuda::translate(&module, &info, &options),
            Err(Error::Unsupported { .. })
        ));
    }
}

/// Shaders at the edges of the language: each has either a translation, which NVRTC compiles, or an error.
#[test]
fn odd_shaders_do_not_panic() {
    let bodies = [
        "",
        "return;",
        "loop { break; }",
        "loop { continuing { break if true; } }",
        "switch 1 { default: {} }",
        "switch x[0] { case default, 7: { return; } }",
        "for (;;) { if x[0] == 1 { continue; } else { break; } }",
        "while true { switch x[1] { case 1: { continue; } default: { break; } } }",
        "let p = &x[1]; *p = *p + 1;",
        "var a: array<array<array<vec3<bool>, 2>, 3>, 4>; a[1][2][x[0]] = vec3(true);",
        "var m = mat4x3<f32>(); m[x[0]][x[1]] = 1.0; _ = transpose(m) * m;",
        "_ = vec4(vec2(1), vec2(x[0], 3)).wzyx.xy;",
        "var v = vec2(1u); v.x++; v[x[1]] -= 1u; v *= 2u;",
        "_ = select(vec3(1.0), vec3(2.0), vec3(x[0] > 1));",
        "const c = 1.0 / 3.0; var f = f32(c); f = -0.0; f = 3.4028235e38; f = 1e-45;",
        "x[0] = -2147483648; x[1] = i32(-2147483648); x[2] = ~x[3] / -1;",
        "x[0] = array(1, 2, 3)[x[1]]; x[1] = vec3(1, 2, 3)[x[2]]; x[2] = mat2x2<f32>()[x[1]][x[0]] < 1.0 && true;",
        "workgroupBarrier(); storageBarrier(); textureBarrier();",
        "_ = frexp(vec3(1.0)); _ = modf(1.5); _ = ldexp(2.0, x[0]);",
        "_ = outerProduct(vec2(1.0), vec2(2.0));",
        "_ = 1i << 31u; _ = x[0] << u32(x[1]); _ = x[0] % x[1];",
        "x[4294967295u] = 1;",
        "x[-1] = 1;",
        "_ = bitcast<vec2<f32>>(vec2<u32>(7u)); _ = bitcast<u32>(-1);",
        "_ = u64(1) + 2lu;",
        "_ = f64(x[0]);",
        "discard;",
        "_ = dpdx(1.0);",
        "_ = subgroupAdd(vec3(x[0])); _ = subgroupExclusiveMul(f32(x[0]));",
        "_ = subgroupMin(vec2(1.5));",
        "_ = atomicCompareExchangeWeak(&counter, 1u, 2u).old_value; atomicStore(&counter, 3u);",
        "_ = arrayLength(&x) * 4u;",
        "{ { let a = 1; { let a = 2.0; _ = a; } _ = a; } }",
        "let b = bool(x[0]) != false; x[1] = i32(b) + select(1, 2, b & true | false);",
    ];
    let nvrtc = Nvrtc::load();
    let mut translated = 0;
    for body in bodies {
        let wgsl = format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<i32>;
            var<workgroup> counter: atomic<u32>;
            @compute @workgroup_size(7, 3)
            fn main() {{ {body} }}"
        );
        // naga refuses some already.
        let Ok((module, info)) = parse(&wgsl) else {
            continue;
        };
        for policy in POLICIES {
            match naga_cuda::translate(&module, &info, &options(policy, "odd.wgsl", &wgsl)) {
                Ok(translation) => {
                    translated += 1;
                    if let (Some(nvrtc), true) = (&nvrtc, policy == POLICIES[1]) {
                        nvrtc
                            .compile(&translation.source, "sm_80")
                            .unwrap_or_else(|log| panic!("{body}: {log}"));
                    }
                }
                Err(Error::Unsupported {
                    location: Some(_), ..
                }) => {}
                Err(error) => panic!("{body}: {error}"),
            }
        }
    }
    assert!(translated >= 60, "{translated}");
}
