// Complex numbers and twiddle factors. `way` is one forward, minus one back.
var<private> way: f32 = 1.0;

fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn conjugate(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x, -a.y);
}

// A quarter of a turn the way the transform goes: times -i forward.
fn quarter(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(way * a.y, -way * a.x);
}

// e^(-2πi·part/2^log), or its conjugate: by octants, each from its nearer end, because the language's own functions keep 11 bits only.
fn turn(part: u32, log: u32) -> vec2<f32> {
    let eighths = part << 3u;
    let octant = (eighths >> log) & 7u;
    // A division may be off; this is one part of 2^log.
    let one = bitcast<f32>((127u - log) << 23u);
    let within = f32(eighths & ((1u << log) - 1u)) * one;
    var eighth = within;
    if ((octant & 1u) == 1u) {
        eighth = 1.0 - within;
    }
    let x = eighth * 0.785398163397448;
    let y = x * x;
    let sine = x * (1.0 - y * (1.0 / 6.0 - y * (1.0 / 120.0 - y * (1.0 / 5040.0 - y * (1.0 / 362880.0)))));
    let cosine = 1.0 - y * (0.5 - y * (1.0 / 24.0 - y * (1.0 / 720.0 - y * (1.0 / 40320.0 - y * (1.0 / 3628800.0)))));
    var re = cosine;
    var im = sine;
    // Beyond the first diagonal they trade places.
    if (((octant + 1u) & 2u) == 2u) {
        re = sine;
        im = cosine;
    }
    if (octant >= 2u && octant < 6u) {
        re = -re;
    }
    if (octant >= 4u) {
        im = -im;
    }
    return vec2<f32>(re, -way * im);
}

fn transform2(v: array<vec2<f32>, 2>) -> array<vec2<f32>, 2> {
    return array<vec2<f32>, 2>(v[0] + v[1], v[0] - v[1]);
}

fn transform4(v: array<vec2<f32>, 4>) -> array<vec2<f32>, 4> {
    let evens = v[0] + v[2];
    let apart = v[0] - v[2];
    let odds = v[1] + v[3];
    let turned = quarter(v[1] - v[3]);
    return array<vec2<f32>, 4>(evens + odds, apart + turned, evens - odds, apart - turned);
}

fn transform8(v: array<vec2<f32>, 8>) -> array<vec2<f32>, 8> {
    let e = transform4(array<vec2<f32>, 4>(v[0], v[2], v[4], v[6]));
    let o = transform4(array<vec2<f32>, 4>(v[1], v[3], v[5], v[7]));
    let half = 0.707106781186548;
    let one = half * (o[1] + quarter(o[1]));
    let two = quarter(o[2]);
    let three = half * (quarter(o[3]) - o[3]);
    return array<vec2<f32>, 8>(
        e[0] + o[0], e[1] + one, e[2] + two, e[3] + three,
        e[0] - o[0], e[1] - one, e[2] - two, e[3] - three,
    );
}
