fn window_at(number: u32, at: u32, group_number: u32) -> A {
    let place = place_of(number);
    let taps = params[2].x * params[2].y * params[2].z;
$FIND    let offset = vec3<u32>(tap / (params[2].y * params[2].z), tap / params[2].z % params[2].y, tap % params[2].z)
        * params[6].xyz;
    let base = (group_number * params[2].w + channel) * params[7].y;
    // Padding is counted where a window begins.
    let inside = vec3<u32>(place.z, place.y, place.x) + offset;
    if any(inside < params[5].xyz) {
        return A(0.0);
    }
    let spot = inside - params[5].xyz;
    if any(spot >= params[3].xyz) {
        return A(0.0);
    }
    return A(operand[place.w + base + spot.x * params[7].z + spot.y * params[7].w + spot.z * params[8].x]);
}

