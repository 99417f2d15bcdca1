@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 7>;

// Where an element of the result lies in each operand: at most six axes.
fn places_of(at: u32) -> vec3<u32> {
    var rest = at;
    var places = vec3<u32>(0u);
    for (var axis = 0u; axis < min(params[0].z, 6u); axis++) {
        let own = params[axis + 1u];
        places += (rest % own.x) * own.yzw;
        rest = rest / own.x;
    }
    return places;
}
