"""What a pipeline is: its file as frozen, validated models; settings; names and places."""
