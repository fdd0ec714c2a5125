# Fits the commands of a guide to the folder and the time of a test (run_examples).
# Servers run in the background, on a free port.
s/^((mpirun .*)?tp-infer serve )/serve \1/
s#(http://)(node1|127\.0\.0\.1):8080#\1127.0.0.1:$port#g
s#https://llm\.example\.com#http://127.0.0.1:$port#
s#^(bench/serve/load\.py)#\1 --url http://127.0.0.1:$port --requests 2 --output-tokens 8#
s/--model NAME/--model DIR/
# All hosts are this one.
s#launch/samples/hostfile#hosts#
s/--bind-to numa/--bind-to none/
s/ppr:1:numa/ppr:2:node/
# Less work. Options that a command gives itself come later and win.
s/tp-infer (generate|chat) /&--max-tokens 8 /
s/mpirun -np [0-9]+ tp-infer bench/tp-infer bench/
s/--generate [1-9][0-9]*/--generate 4/
s/--requests 64/--requests 2/
s/--prompt-tokens 1024 --shared-prefix-tokens 896/--prompt-tokens 128 --shared-prefix-tokens 64/
s/--turns [0-9]+/--turns 2/
s/--repeat [0-9]+/--repeat 1/
s/--context 65536 --index-topk 2048/--context 4096 --hidden-size 512 --index-topk 256/
s/(DIFFERENTIAL_SECONDS)=[0-9]+/\1=10/
