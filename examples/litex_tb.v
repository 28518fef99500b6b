// Bus master for the SoC of litex_ulx3s.py: it reads job.txt, writes and reads by Wishbone, and
// prints PASS or FAIL.
`timescale 1ns / 1ns
module litex_tb;
  reg clk = 0;
  reg cyc = 0, we = 0;
  reg [29:0] adr = 0;
  reg [31:0] dat_w = 0, word, expected, address;
  wire [31:0] dat_r;
  wire ack, err;
  integer file, count, tries, accesses = 0;
  reg [7:0] kind;

  always #20 clk = ~clk;

  soc dut (
    .clk25(clk), .bus_adr(adr), .bus_dat_w(dat_w), .bus_dat_r(dat_r), .bus_sel(4'hf),
    .bus_cyc(cyc), .bus_stb(cyc), .bus_we(we), .bus_ack(ack), .bus_err(err), .bus_cti(3'd0),
    .bus_bte(2'd0)
  );

  task access(input write, input [31:0] where, input [31:0] value);
    begin
      adr <= where[31:2];
      dat_w <= value;
      we <= write;
      cyc <= 1;
      @(posedge clk);
      while (ack !== 1 && err !== 1) @(posedge clk);
      word = dat_r;
      if (err === 1) begin
        $display("FAIL: an error of the bus at %h", where);
        $finish;
      end
      cyc <= 0;
      @(posedge clk);
      accesses = accesses + 1;
    end
  endtask

  initial begin
    file = $fopen("job.txt", "r");
    repeat (40) @(posedge clk);
    count = $fscanf(file, "%s %h %h\n", kind, address, expected);
    while (count == 3) begin
      tries = 0;
      access(kind == "w", address, expected);
      while (kind == "p" && word !== expected && tries < 5000) begin
        access(0, address, 0);
        tries = tries + 1;
      end
      if (kind != "w" && word !== expected) begin
        $display("FAIL: %h at %h, expected %h", word, address, expected);
        $finish;
      end
      count = $fscanf(file, "%s %h %h\n", kind, address, expected);
    end
    $display("PASS: %0d accesses", accesses);
    $finish;
  end
endmodule
