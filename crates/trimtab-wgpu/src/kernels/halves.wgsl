// The last round whose panels hold a number that 16 bits cannot, counted from one.
var<workgroup> odd: atomic<u32>;

// From 2^-22 to 255 a number keeps its eleven bits; by bits, so that infinities and what is not a number are found too.
fn kept(four: vec4<A>, turn: u32) -> vec4<f16> {
    let bits = bitcast<vec4<u32>>(four) & vec4<u32>(0x7fffffffu);
    let large = bits > vec4<u32>(0x437f0000u);
    // Zero is kept as it is: one less is more than any.
    let small = bits - vec4<u32>(1u) < vec4<u32>(0x347fffffu);
    if (any(large | small)) {
        atomicMax(&odd, turn);
    }
    return vec4<f16>(four * 256.0);
}
