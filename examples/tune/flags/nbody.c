// A small simulation of bodies that attract each other: enough arithmetic for a compiler's flags to matter.
#include <math.h>
#include <stdio.h>

enum { BODIES = 48, STEPS = 3000 };
static double position[BODIES][3], velocity[BODIES][3], mass[BODIES];

static void step(double dt) {
    for (int i = 0; i < BODIES; i++) {
        double pull[3] = {0, 0, 0};
        for (int j = 0; j < BODIES; j++) {
            double apart[3], square = 1e-3;
            for (int k = 0; k < 3; k++) {
                apart[k] = position[j][k] - position[i][k];
                square += apart[k] * apart[k];
            }
            double strength = mass[j] / (square * sqrt(square));
            for (int k = 0; k < 3; k++) pull[k] += strength * apart[k];
        }
        for (int k = 0; k < 3; k++) velocity[i][k] += dt * pull[k];
    }
    for (int i = 0; i < BODIES; i++)
        for (int k = 0; k < 3; k++) position[i][k] += dt * velocity[i][k];
}

int main(void) {
    for (int i = 0; i < BODIES; i++) {
        mass[i] = 1.0 / BODIES;
        for (int k = 0; k < 3; k++) position[i][k] = sin(1.0 + 7.0 * i + 3.0 * k);
    }
    for (int n = 0; n < STEPS; n++) step(1e-4);
    double energy = 0;
    for (int i = 0; i < BODIES; i++)
        for (int k = 0; k < 3; k++) energy += mass[i] * velocity[i][k] * velocity[i][k] / 2;
    printf("energy %.9f\n", energy);
    return energy > 0 && energy < 1 ? 0 : 1;
}
