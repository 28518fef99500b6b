// Steps the model of an SDRAM chip through a trace, and prints what it drives.
//
// trace FIGURE...: reads "ras cas we ba a dq driven" from standard input, a line a cycle, and prints a
// word, or -1. A broken rule ends it with status 3.
#include "sdram_chip.h"

int main(int, char** argv) {
    double f[17];
    for (int k = 0; k < 17; k++) f[k] = atof(argv[k + 1]);
    SdramFigures figures{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10],
                         int(f[11]), int(f[12]), int(f[13]), int(f[14]), int(f[15]), f[16]};
    static SdramChip chip(figures);
    SdramPins pins;
    while (scanf("%d %d %d %d %d %d %d", &pins.ras, &pins.cas, &pins.we, &pins.ba, &pins.a, &pins.dq_o,
                 &pins.dq_oe) == 7)
        printf("%d\n", chip.step(pins));
}
